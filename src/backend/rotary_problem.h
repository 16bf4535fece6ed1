// Rotary positions as every backend takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"
#include "headway/ops.h"
#include "headway/shape.h"

namespace headway::inline v0::internal {

// Rotates pairs of x (outer sizes..., length, head_dim), whose last dimension is contiguous, by their positions.
struct RotaryProblem {
  DType dtype = DType::float32;
  Shape shape = {};      // of x and result
  Shape x_strides = {};  // in elements
  const std::byte* x = nullptr;
  std::byte* result = nullptr;  // contiguous; may be x where x is
  RotaryOptions options = {};   // with dims and frequencies filled in
  bool backward = false;        // by the negative angles

  // (length), or (shape[0], length) where position_rows is above 1; null: from options.offset on.
  const std::int64_t* positions = nullptr;
  std::int64_t position_rows = 1;
};

}  // namespace headway::inline v0::internal

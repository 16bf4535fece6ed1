// Inputs and results of the kernels of products in 8 bits: plain structs, the same for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/activation.h"

namespace headway::inline v0::internal {

// Rows of x in 8 bits: row / scale, to the nearest whole number and of two equally near ones to the even one, where
// scale is the greatest magnitude / 127. A row without anything as large as kLeastMagnitude is a row of zeros; one that
// holds NaN or infinity has a scale of NaN.
struct QuantizeRowsTask {
  std::int64_t rows = 0;
  std::int64_t depth = 0;
  const float* x = nullptr;  // (rows, depth)
  std::int64_t x_stride = 0;
  std::byte* values = nullptr;  // (rows, row_bytes(depth)), 64-byte aligned
  float* scales = nullptr;      // (rows)
};

// 127 divided by anything smaller is close to what a float cannot hold.
inline constexpr float kLeastMagnitude = 0x1p-120F;

// One panel of a weight, in the order in which products read it.
struct QuantizedPackTask {
  const std::int8_t* weight = nullptr;  // (columns, depth)
  std::int64_t columns = 0;             // at most panel_columns; those beyond are zeros
  std::int64_t depth = 0;
  std::byte* panel = nullptr;  // panel_bytes(depth), 64-byte aligned
};

// Columns of a weight: their panels, scales and biases.
struct QuantizedColumns {
  const std::byte* panels = nullptr;
  const float* scales = nullptr;  // (columns)
  const float* bias = nullptr;    // (columns); null: none
};

// y = sum * column's scale * row's scale + bias, each operation rounded, from sums of whole numbers that are exact. The
// result is activation(y), times the y of other columns where there are any, plus what is added.
struct QuantizedTask {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const std::byte* values = nullptr;  // (rows, row_bytes(depth)), of QuantizeRowsTask
  const float* row_scales = nullptr;  // (rows)
  QuantizedColumns weight = {};       // begins with a panel
  QuantizedColumns multiplied = {};   // likewise; without panels: none
  Activation activation = Activation::none;
  const float* added = nullptr;  // (rows, columns); null: none; may be the result
  std::int64_t added_stride = 0;
  float* result = nullptr;  // (rows, columns)
  std::int64_t result_stride = 0;
};

struct QuantizedKernels {
  std::int64_t tile_rows = 0;
  std::int64_t panel_columns = 0;

  std::int64_t (*row_bytes)(std::int64_t depth) noexcept = nullptr;    // of a row of x
  std::int64_t (*panel_bytes)(std::int64_t depth) noexcept = nullptr;  // of a panel of the weight
  void (*pack)(const QuantizedPackTask& task) noexcept = nullptr;
  void (*quantize_rows)(const QuantizeRowsTask& task) noexcept = nullptr;
  void (*product)(const QuantizedTask& task) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal

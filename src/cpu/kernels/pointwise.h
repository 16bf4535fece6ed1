// Inputs and results of the elementwise kernels: plain structs, the same for every instruction set. Each
// kernel does its task on the calling thread; 16-bit elements are computed in float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/pointwise_tasks.h"

namespace headway::inline v0::internal {

// d_before (rows, columns) = d_after * the activation's slope, and the sums of its columns. d_before may be d_after.
struct ActivationBackwardTask {
  Activation activation = Activation::none;
  DType dtype = DType::float32;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;         // in elements, of all three
  const std::byte* d_after = nullptr;  // (rows, columns)
  const std::byte* saved = nullptr;    // (rows, columns): see slope_from_output()
  std::byte* d_before = nullptr;       // (rows, columns)
  std::byte* sums = nullptr;           // (columns) of float32, of float64 for float64; null: not wanted
};

// sums (columns) = the sum over the rows of x (rows, columns).
struct ColumnSumsTask {
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_stride = 0;  // in elements
  const std::byte* x = nullptr;
  std::byte* sums = nullptr;  // of float32, of float64 for float64
};

// Rotates the first `dims` of each row of x (rows, head_dim); the rest is copied. result may be x.
struct RotaryTask {
  DType dtype = DType::float32;
  bool interleaved = false;
  std::int64_t rows = 0;
  std::int64_t head_dim = 0;
  std::int64_t dims = 0;
  const std::byte* x = nullptr;
  std::int64_t x_row_stride = 0;  // in elements
  std::byte* result = nullptr;    // one row after the other
  // (rows, dims / 2) of float32, of float64 for float64. Interleaved: (rows, dims) with each cosine twice, and each
  // sine first with the opposite sign.
  const std::byte* cosines = nullptr;
  const std::byte* sines = nullptr;
};

struct PointwiseKernels {
  void (*binary)(const BinaryTask&) noexcept = nullptr;
  void (*unary)(const UnaryTask&) noexcept = nullptr;
  void (*scale)(const ScaleTask&) noexcept = nullptr;
  void (*activate)(const ActivateTask&) noexcept = nullptr;
  void (*activation_backward)(const ActivationBackwardTask&) noexcept = nullptr;
  void (*column_sums)(const ColumnSumsTask&) noexcept = nullptr;
  void (*dropout)(const DropoutTask&) noexcept = nullptr;
  void (*rotary)(const RotaryTask&) noexcept = nullptr;
};

}  // namespace headway::inline v0::internal

// Elementwise operations on the CPU: whole tensors, cut into chunks of a fixed size and spread over the threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/kernels/pointwise.h"
#include "headway/dtype.h"
#include "headway/ops.h"

namespace headway::inline v0::internal::cpu {

// Each does the task that its kernel does on one thread.
void binary(const BinaryTask& task);
void scale(const ScaleTask& task);
void activate(const ActivateTask& task);
void dropout(const DropoutTask& task);

// Whether the slope of an activation is computed from its output; otherwise from the value before the activation.
constexpr bool slope_from_output(Activation activation) {
  return activation == Activation::relu || activation == Activation::tanh || activation == Activation::sigmoid;
}

// The gradient before an activation, and of the bias that was added there. All contiguous.
struct ActivationBackward {
  Activation activation = Activation::none;
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* d_after = nullptr;  // (rows, columns)
  const std::byte* saved = nullptr;  // (rows, columns): the output where slope_from_output(), else what came before it
  std::byte* d_before = nullptr;     // (rows, columns); may be d_after
  std::byte* sums = nullptr;         // (columns): the sums of d_before over its rows; null: not wanted
  DType sums_dtype = DType::float32;
};

// d_before = d_after * slope, and its column sums in the same pass where they are wanted.
void activation_backward(const ActivationBackward& problem);

// The sums of x over its rows: the gradient of a bias. All contiguous.
struct ColumnSums {
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* x = nullptr;  // (rows, columns)
  std::byte* sums = nullptr;     // (columns)
  DType sums_dtype = DType::float32;
};

// Sums blocks of rows in float32 (float64 for float64) and joins the blocks in float64, in an order that follows from
// the shape alone.
void column_sums(const ColumnSums& problem);

// Rotates pairs of x (outer sizes..., length, head_dim), whose last dimension is contiguous, by their positions.
struct RotaryProblem {
  DType dtype = DType::float32;
  Shape shape = {};      // of x and result
  Shape x_strides = {};  // in elements
  const std::byte* x = nullptr;
  std::byte* result = nullptr;  // contiguous; may be x where x is
  RotaryOptions options = {};   // with the number of dims filled in
  bool backward = false;        // by the negative angles
};
void rotary(const RotaryProblem& problem);

}  // namespace headway::inline v0::internal::cpu

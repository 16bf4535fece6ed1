// Elementwise operations as every backend takes them: whole tensors in dense memory. 16-bit elements are computed in
// float32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/random.h"
#include "headway/activation.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal {

// How two operands are joined. The greater or the smaller of a number and NaN is NaN.
enum class Binary { add, subtract, multiply, divide, maximum, minimum };

// result (rows, columns) = a (rows, columns) op b (rows, columns). Rows are contiguous; result may be a or b.
struct BinaryTask {
  Binary operation = Binary::add;
  DType dtype = DType::float32;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  const std::byte* a = nullptr;
  std::int64_t a_row_stride = 0;  // in elements; 0: one row for all
  const std::byte* b = nullptr;
  std::int64_t b_row_stride = 0;  // likewise
  std::byte* result = nullptr;    // one row after the other
};

// result (count) = x (count) * factor; result may be x.
struct ScaleTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const std::byte* x = nullptr;
  std::byte* result = nullptr;
  double factor = 1;
};

// target (count) += (source (count) - target) * share
struct LerpTask {
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const std::byte* source = nullptr;
  std::byte* target = nullptr;
  double share = 1;
};

// A function of one operand, and of a number n where it says so.
enum class Unary {
  add,            // x + n
  subtract_from,  // n - x
  divide,         // x / n
  divide_into,    // n / x
  exp,
  log,
  sqrt,
  power,  // x^n
};

// result (count) = function(x (count)); result may be x.
struct UnaryTask {
  Unary operation = Unary::add;
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const std::byte* x = nullptr;
  std::byte* result = nullptr;
  double number = 0;
};

// result (count) = activation(x (count)); result may be x.
struct ActivateTask {
  Activation activation = Activation::none;
  DType dtype = DType::float32;
  std::int64_t count = 0;
  const std::byte* x = nullptr;
  std::byte* result = nullptr;
};

// result (count) = dropout(x (count)), or base + that. result may be x or base.
struct DropoutTask {
  DType dtype = DType::float32;
  std::int64_t first = 0;  // the index of the first element in its tensor, a multiple of 128
  std::int64_t count = 0;
  const std::byte* base = nullptr;  // (count); null: none
  const std::byte* x = nullptr;
  std::byte* result = nullptr;
  ElementDropout rule = {};
};

// Whether the slope of an activation is computed from its output; otherwise from the value before the activation.
constexpr bool slope_from_output(Activation activation) {
  return activation == Activation::relu || activation == Activation::tanh || activation == Activation::sigmoid;
}

// The gradient before an activation, and of the bias that was added there: d_before = d_after * factor * slope, where
// the first product is rounded to the dtype. All contiguous.
struct ActivationBackward {
  Activation activation = Activation::none;
  DType dtype = DType::float32;
  double factor = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* d_after = nullptr;  // (rows, columns)
  const std::byte* saved = nullptr;  // (rows, columns): the output where slope_from_output(), else what came before it
  std::byte* d_before = nullptr;     // (rows, columns); may be d_after
  std::byte* sums = nullptr;         // (columns): the sums of d_before over its rows; null: not wanted
  DType sums_dtype = DType::float32;
};

// The sums of x over its rows: the gradient of a bias. All contiguous.
struct ColumnSums {
  DType dtype = DType::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  const std::byte* x = nullptr;  // (rows, columns)
  std::byte* sums = nullptr;     // (columns)
  DType sums_dtype = DType::float32;
};

}  // namespace headway::inline v0::internal

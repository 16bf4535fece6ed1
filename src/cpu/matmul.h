// Matrix products on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"
#include "headway/ops.h"

namespace headway::inline v0::internal::cpu {

// A batch of matrices in a user's tensor. Strides are in elements, of any value; a batch stride of 0 repeats.
struct Matrix {
  std::byte* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t batch_stride = 0;
  DType dtype = DType::float32;
};

// result = activation(a b + bias) for every matrix of the batch.
struct MatmulProblem {
  std::int64_t batch = 1;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  Matrix a = {};                    // (batch, rows, depth)
  Matrix b = {};                    // (batch, depth, columns)
  Matrix result = {};               // (batch, rows, columns); shares no memory with a, b or bias
  const std::byte* bias = nullptr;  // (columns), of the result's dtype, contiguous; null: none
  Activation activation = Activation::none;
  Matrix before_activation = {};  // (batch, rows, columns): where a b + bias is kept too; data null: nowhere
  bool accumulate = false;        // result += a b, for a result of float32 or float64; without bias and activation
};

// Computes the product. a and b have one floating dtype; the result has it too, or float32 for 16-bit ones. Sums are
// float64 for float64, else float32. An empty depth gives activation(bias). How work is cut and the order of every sum
// follow from the shapes, dtypes and strides alone: bits do not depend on the number of threads.
void matmul(const MatmulProblem& problem);

}  // namespace headway::inline v0::internal::cpu

// Matrix products as every backend takes them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headway/dtype.h"
#include "headway/ops.h"

namespace headway::inline v0::internal {

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
  Matrix before_activation = {};        // (batch, rows, columns): where a b + bias is kept too; data null: nowhere
  const std::byte* packed_b = nullptr;  // b as Backend::pack_weight() returned it, for a batch of one; null: not packed
  // result += a b, without bias and activation. Results of 16 bits are rounded once; the CPU does not take them.
  bool accumulate = false;
};

// The batch as one taller matrix where B is the same for all and the rows go on evenly; else the problem itself.
inline MatmulProblem with_merged_batch(MatmulProblem p) {
  const auto continues = [&](const Matrix& m) { return !m.data || m.batch_stride == p.rows * m.row_stride; };
  if (p.batch > 1 && p.b.batch_stride == 0 && continues(p.a) && continues(p.result) && continues(p.before_activation)) {
    p.rows *= p.batch;
    p.batch = 1;
  }
  return p;
}

}  // namespace headway::inline v0::internal

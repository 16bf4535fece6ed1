// Matrix products without a record, shared by matmul() and linear().
#pragma once

#include "backend/registry.h"
#include "headway/tensor.h"
#include "ops/checks.h"

namespace headway::inline v0::internal {

// The matrices in the last two dimensions of a tensor of rank 2, or of rank 3 with a batch in front.
Matrix matrix_of(const Tensor& tensor);

// a b for tensors [..., rows, depth] and [..., depth, columns] of one dtype, whose leading dimensions broadcast.
Tensor product(const Tensor& a, const Tensor& b);

// result = a b, or result += a b where `accumulate`, for matrices of one dtype; the CPU adds up float32 and float64.
void product_into(const Tensor& a, const Tensor& b, const Tensor& result, bool accumulate = false);

}  // namespace headway::inline v0::internal

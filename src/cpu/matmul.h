// Matrix products on the CPU.
#pragma once

#include "backend/matmul_problem.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal::cpu {

// Computes the product. a and b have one floating dtype; the result has it too, or float32 for 16-bit ones. Sums are
// float64 for float64, else float32. An empty depth gives activation(bias). How work is cut and the order of every sum
// follow from the shapes, dtypes and strides alone: bits do not depend on the number of threads.
void matmul(const MatmulProblem& problem);

// weight^T in panels for MatmulProblem::packed_b: weight [out, in] -> memory of as many floats as it takes.
Tensor pack_weight(const Tensor& weight);

}  // namespace headway::inline v0::internal::cpu

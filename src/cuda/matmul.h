// Matrix products on a GPU.
#pragma once

#include "backend/matmul_problem.h"

namespace headway::inline v0::internal::cuda {

// Computes the product. a and b have one floating dtype; the result has it too, or float32 for 16-bit ones. Sums are
// float64 for float64, else float32, and rounded once. An empty depth gives activation(bias). The order of every sum
// follows from the shapes, dtypes, strides and alignments alone.
void matmul(const MatmulProblem& problem);

}  // namespace headway::inline v0::internal::cuda

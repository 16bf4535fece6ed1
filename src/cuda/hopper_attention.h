// Attention forward by Hopper's tensor cores and bulk copies.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// Fills the result and returns true, or returns false where the GPU, dtype, sizes or strides are not its own: compute
// capability 9.0, 16-bit elements, dimensions up to 256 in multiples of 8, rows at multiples of 16 bytes.
bool hopper_attention(const AttentionProblem& problem, AttentionResult& result);

}  // namespace headway::inline v0::internal::cuda

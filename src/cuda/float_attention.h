// Attention in float32 on tensor cores, from compute capability 8.0 on, with float32's accuracy.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// Fills result.output and result.logsumexp. False, and nothing done, where the problem is none for these kernels: other
// dtypes, more than 128 columns, rows that are not aligned to 16 bytes, or scores with a bias, mask, softcap or ALiBi.
bool float_attention(const AttentionProblem& problem, AttentionResult& result);

// Fills the gradients that are defined; false, and nothing done, as above.
bool float_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                              AttentionGradients& gradients);

}  // namespace headway::inline v0::internal::cuda

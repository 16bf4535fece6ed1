// Attention on the GPU: which kernels compute a call.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// As Backend::attention and Backend::attention_backward.
void attention(const AttentionProblem& problem, AttentionResult& result);
void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                        AttentionGradients& gradients);

}  // namespace headway::inline v0::internal::cuda

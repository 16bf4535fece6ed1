// Attention on the CPU: how the work is cut and spread over threads.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cpu {

// Fills result.output, whose last dimension is contiguous, result.logsumexp and, where asked for, result.weights, which
// are contiguous; all are allocated.
void attention(const AttentionProblem& problem, AttentionResult& result);

// Fills the gradients, which are allocated with contiguous last dimensions; bias and sinks only where they are defined.
// gradients.bias is zero and has the shape of problem.bias with broadcast dimensions reduced to 1, in float32 or
// float64 sums.
void attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                        AttentionGradients& gradients);

}  // namespace headway::inline v0::internal::cpu

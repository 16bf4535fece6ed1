// The gradients of attention on Hopper's tensor cores: bfloat16 and float16.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// Fills gradients.query, .key, .value and, where they are defined, .bias and .sinks: the same bits in every run, but
// that without problem.deterministic blocks add to the query's gradient in the order in which they arrive, which is
// faster. Returns false, having done nothing, for calls that it does not take: another GPU or dtype, dims above 256 or
// no multiple of 8, addresses that bulk copies cannot reach, a float64 bias, the gradient of a bias that is broadcast
// over queries or keys, d_weights, no d_output.
bool hopper_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                               AttentionGradients& gradients);

}  // namespace headway::inline v0::internal::cuda

// The weights that a user asked for, 16 bits each, about as fast as they can be written.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// Fills result.weights from result.logsumexp. False, with nothing done, where the problem is not taken.
bool tuned_weights(const AttentionProblem& problem, const AttentionResult& result);

}  // namespace headway::inline v0::internal::cuda

// The forward for few queries over many keys, as in decoding: bound by the time that keys and values take to come.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

// Fills result.output and result.logsumexp. False, with nothing done, where the problem is not of this kind.
bool decode_attention(const AttentionProblem& problem, AttentionResult& result);

}  // namespace headway::inline v0::internal::cuda

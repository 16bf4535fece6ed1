// The float32 backward of sequences of at most 64 queries and keys, in one kernel.
#pragma once

#include "backend/attention_problem.h"

namespace headway::inline v0::internal::cuda {

struct FloatBackward;

// Whether the kernel takes a problem that the float32 backward takes.
bool is_short_for_float_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs);

// Fills dQ, dK, dV and delta.
void float_short_backward(const AttentionProblem& problem, const FloatBackward& backward);

}  // namespace headway::inline v0::internal::cuda

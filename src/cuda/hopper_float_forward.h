// The float32 forward by Hopper's warpgroup products, up to 64 columns.
#pragma once

#include "backend/attention_problem.h"
#include "cuda/attention_call.h"

namespace headway::inline v0::internal::cuda {

struct FloatForward;

// Fills the output and its log-sum-exp of a problem that is_for_halves(); `forward` has everything but its table of
// tiles.
void hopper_float_forward(const AttentionProblem& problem, UploadedCall& uploaded, FloatForward& forward);

}  // namespace headway::inline v0::internal::cuda

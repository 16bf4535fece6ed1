// The float32 backward by Hopper's warpgroup products, up to 64 columns.
#pragma once

#include "backend/attention_problem.h"
#include "cuda/attention_call.h"

namespace headway::inline v0::internal::cuda {

struct FloatBackward;

// Fills dQ, dK and dV of a problem that is_for_halves(); `backward` has everything but its tables of tiles.
void hopper_float_backward(const AttentionProblem& problem, UploadedCall& uploaded, FloatBackward& backward);

}  // namespace headway::inline v0::internal::cuda

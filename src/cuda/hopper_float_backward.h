// The float32 backward by Hopper's warpgroup products, up to 64 columns.
#pragma once

#include "core/attention_problem.h"
#include "cuda/attention_call.h"

namespace headway::inline v0::internal::cuda {

struct FloatBackward;

// Whether these kernels take a problem that the float32 backward takes: long sequences on Hopper.
bool hopper_takes_float_backward(const AttentionProblem& problem);

// Fills dQ, dK and dV; `backward` has everything but its tables of tiles.
void hopper_float_backward(const AttentionProblem& problem, UploadedCall& uploaded, FloatBackward& backward);

}  // namespace headway::inline v0::internal::cuda

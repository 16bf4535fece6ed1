// Elementwise operations on the GPU; the tasks are described in backend/pointwise_tasks.h.
#pragma once

#include "backend/pointwise_tasks.h"
#include "backend/rotary_problem.h"

namespace headway::inline v0::internal::cuda {

void binary(const BinaryTask& task);
void unary(const UnaryTask& task);
void scale(const ScaleTask& task);
void lerp(const LerpTask& task);
void activate(const ActivateTask& task);
// d_before = d_after * slope, and its column sums where they are wanted.
void activation_backward(const ActivationBackward& task);
void dropout(const DropoutTask& task);
// Sums are taken in float64; their order follows from the shape.
void column_sums(const ColumnSums& task);
void rotary(const RotaryProblem& problem);

}  // namespace headway::inline v0::internal::cuda

// Elementwise operations on the CPU: whole tensors, cut into chunks of a fixed size and spread over the threads.
#pragma once

#include "backend/pointwise_tasks.h"
#include "backend/rotary_problem.h"

namespace headway::inline v0::internal::cpu {

void binary(const BinaryTask& task);
void unary(const UnaryTask& task);
void scale(const ScaleTask& task);
void lerp(const LerpTask& task);
void activate(const ActivateTask& task);
void dropout(const DropoutTask& task);

// d_before = d_after * slope, and its column sums in the same pass where they are wanted.
void activation_backward(const ActivationBackward& problem);

// Sums blocks of rows in float32 (float64 for float64) and joins the blocks in float64, in an order that follows from
// the shape alone.
void column_sums(const ColumnSums& problem);

// Rotates pairs by their positions.
void rotary(const RotaryProblem& problem);

}  // namespace headway::inline v0::internal::cpu

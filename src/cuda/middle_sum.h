// Sums over the middle one of three dimensions, in float64.
#pragma once

#include "core/device_memory.h"

namespace headway::inline v0::internal::cuda {

// target (outer, inner) = the sum of x (outer, middle, inner) over the middle; zeros where the middle is empty.
void middle_sum(const MiddleSum& task);

// The same with a target of another floating dtype than x.
void middle_sum_as(const MiddleSum& task, DType target_dtype);

}  // namespace headway::inline v0::internal::cuda

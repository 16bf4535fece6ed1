// Sums over the middle one of three dimensions, in float64.
#pragma once

#include "core/device_memory.h"

namespace headway::inline v0::internal::cpu {

// target (outer, inner) = the sum of x (outer, middle, inner) over the middle, in an order that follows from the sizes.
void middle_sum(const MiddleSum& task);

}  // namespace headway::inline v0::internal::cpu

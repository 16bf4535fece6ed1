// Copies between strided memory, with a conversion of the element type.
#pragma once

#include "core/device_memory.h"

namespace headway::inline v0::internal::cpu {

// target[i] = source[i] for every index i of the shape, which has elements. The two must not overlap.
void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape);

// target[i] = value for every index i of the shape, which has elements.
void fill(const StridedTarget& target, const Shape& shape, double value);

}  // namespace headway::inline v0::internal::cpu

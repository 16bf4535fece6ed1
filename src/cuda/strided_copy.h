// Copies between strided memory of the GPU, with a conversion of the element type.
#pragma once

#include "core/device_memory.h"

namespace headway::inline v0::internal::cuda {

// target[i] = source[i] for every index i of the shape; conversions are those of core/convert.h. The two must not
// overlap.
void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape);

}  // namespace headway::inline v0::internal::cuda

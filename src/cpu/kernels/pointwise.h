// What the kernels of elementwise operations take and give.
#pragma once

#include <cstdint>

namespace headway::inline v0::internal {

struct PointwiseKernels {};

}  // namespace headway::inline v0::internal

// What the kernels of optimizers take and give.
#pragma once

#include <cstdint>

namespace headway::inline v0::internal {

struct OptimizerKernels {};

}  // namespace headway::inline v0::internal

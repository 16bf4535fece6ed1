// What the kernels of matrix products take and give: plain structs, the same for every instruction set.
#pragma once

#include <cstdint>

namespace headway::inline v0::internal {

struct MatmulKernels {};

}  // namespace headway::inline v0::internal

// What the kernels of norms, softmax and losses take and give: operations over whole rows.
#pragma once

#include <cstdint>

namespace headway::inline v0::internal {

struct RowwiseKernels {};

}  // namespace headway::inline v0::internal

// A matrix of which one row is not trained.
#pragma once

#include <cstdint>

#include "base/internal_api.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A view of the same memory whose gradient is zero in that row. matrix: [rows, columns].
HEADWAY_INTERNAL_API Tensor with_frozen_row(const Tensor& matrix, std::int64_t row);

}  // namespace headway::inline v0::internal

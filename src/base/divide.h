// Division that rounds up.
#pragma once

#include <cstdint>

namespace headway::inline v0::internal {

// The number of pieces of a given size that cover a count.
constexpr std::int64_t divide_up(std::int64_t count, std::int64_t size) { return (count + size - 1) / size; }

}  // namespace headway::inline v0::internal

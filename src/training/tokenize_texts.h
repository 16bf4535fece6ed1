// Many texts to tokens, on all threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headway::inline v0::internal {

// Calls body(i) for 0 .. count - 1, contiguous ranges on the threads of num_threads(). Results do not depend on it
// where a call writes to place i alone.
void for_each_text(std::size_t count, const std::function<void(std::size_t)>& body);

}  // namespace headway::inline v0::internal

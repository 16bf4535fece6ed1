// Freed blocks that wait to be used again. Fresh pages cost more than many a kernel that fills them: the system clears
// each one at its first touch, so a call that allocates its result anew every time would mostly wait for that.
#pragma once

#include <cstddef>

namespace headway::inline v0::internal {

struct Block {
  void* data = nullptr;
  std::size_t bytes = 0;
};

// Blocks smaller than this stay with the heap, which serves them well.
inline constexpr std::size_t kCachedFrom = std::size_t{256} << 10;

// A cached block of at least `bytes` that wastes at most a quarter; a null one where there is none.
Block take_cached_block(std::size_t bytes);

// Keeps a block that came from posix_memalign with 2 MB alignment from 4 MB on, freeing the oldest ones where the cache
// is full; false when it is not kept. The limit is 64 MB, or the environment's HEADWAY_CACHE_MB.
bool keep_cached_block(Block block);

}  // namespace headway::inline v0::internal

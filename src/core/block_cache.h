// A cache of freed blocks. Fresh pages can cost more than the kernel that fills them, since the system clears each one
// at its first touch; a call that allocates its result every time would mostly wait for that.
#pragma once

#include <cstddef>

#include "core/memory_block.h"

namespace headway::inline v0::internal {

// Smaller blocks are left to the heap, which is fast for them.
inline constexpr std::size_t kCachedFrom = std::size_t{256} << 10;

// A cached block of at least `bytes` that wastes at most a quarter; a null one where there is none.
MemoryBlock take_cached_block(std::size_t bytes);

// Counts a block that was allocated because none was found in the cache, and frees cached blocks where the limit
// requires it. Call it once the memory is there: what is counted raises the limit.
void note_fresh_block(std::size_t bytes) noexcept;

// Frees all cached blocks, for an allocation that failed; false where there was nothing to free.
bool free_cached_blocks() noexcept;

// Caches or frees a block; blocks of 4 MB or more are aligned to 2 MB. Used and cached memory together stay below the
// peak of the used memory, but at least 64 MB may be cached; so a training step reuses the memory of the step before,
// and the peak does not grow. The environment variable HEADWAY_CACHE_MB sets another limit of the cached memory, in
// megabytes.
void give_block_back(const MemoryBlock& block) noexcept;

}  // namespace headway::inline v0::internal

// Freed blocks that wait to be used again. Fresh pages cost more than many a kernel that fills them: the system clears
// each one at its first touch, so a call that allocates its result anew every time would mostly wait for that.
#pragma once

#include <cstddef>

#include "core/memory_block.h"

namespace headway::inline v0::internal {

// Blocks smaller than this stay with the heap, which serves them well.
inline constexpr std::size_t kCachedFrom = std::size_t{256} << 10;

// A cached block of at least `bytes` that wastes at most a quarter; a null one where there is none.
MemoryBlock take_cached_block(std::size_t bytes);

// Notes a block that the cache could not give, and frees cached ones where the limit asks for it.
void note_fresh_block(std::size_t bytes);

// Takes a block back, which is aligned to 2 MB from 4 MB on: it is kept or freed. What is in use and what is kept stay
// together below the most that was ever in use, or 64 MB are kept if that is more; so a training step finds the memory
// of the step before, and the peak does not grow. The environment's HEADWAY_CACHE_MB sets another limit of what is
// kept.
void give_block_back(const MemoryBlock& block);

}  // namespace headway::inline v0::internal

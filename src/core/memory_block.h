// A piece of a device's memory.
#pragma once

#include <cstddef>

namespace headway::inline v0::internal {

// An allocation of a device, which is passed back unchanged to release it.
struct MemoryBlock {
  void* data = nullptr;
  std::size_t bytes = 0;  // usable; at least as many as requested
  bool mapped = false;    // the host's: from mmap, not from the heap
};

}  // namespace headway::inline v0::internal

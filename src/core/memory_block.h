// A piece of a device's memory.
#pragma once

#include <cstddef>

namespace headway::inline v0::internal {

// What a device hands out and wants back as it was.
struct MemoryBlock {
  void* data = nullptr;
  std::size_t bytes = 0;  // that may be used; at least as many as were asked for
  bool mapped = false;    // the host's: from mmap, not from the heap
};

}  // namespace headway::inline v0::internal

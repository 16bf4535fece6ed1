// Scratch memory of kernels.
#pragma once

#include <cstddef>

#include "core/aligned_memory.h"

namespace headway::inline v0::internal {

inline constexpr int kScratchSlots = 4;

// Uninitialised memory of the calling thread, 64-byte aligned: at least `bytes` in slot 0 .. kScratchSlots - 1.
// It is kept until the thread ends, so that the next call finds it in the cache; another request for the same slot,
// also in a nested call, returns the same memory. For more than 8 MB use a ScratchBuffer, which is freed with its
// scope.
std::byte* thread_scratch(int slot, std::size_t bytes);

// Uninitialised memory for the length of a scope, 64-byte aligned, on huge pages where large.
class ScratchBuffer {
 public:
  explicit ScratchBuffer(std::size_t bytes) : memory_(bytes) {}

  std::byte* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.bytes(); }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.data());
  }

 private:
  AlignedMemory memory_;
};

}  // namespace headway::inline v0::internal

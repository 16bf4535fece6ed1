#include "core/scratch.h"

#include <cstdint>
#include <cstdlib>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

struct Slot {
  std::byte* data;
  std::size_t bytes;
};

// Plain data beside an owner that clears it: a static destructor that computes, after the main thread's owner is gone,
// then finds empty slots instead of freed memory.
thread_local Slot slots[kScratchSlots] = {};

struct SlotOwner {
  ~SlotOwner() {
    for (Slot& slot : slots) {
      std::free(slot.data);
      slot = {};
    }
  }
  void touch() {}  // the first use in a thread registers the destructor
};
thread_local SlotOwner owner;

void grow(Slot& slot, std::size_t bytes) {
  constexpr std::size_t kStep = 4096;
  owner.touch();
  std::free(slot.data);
  slot = {};
  if (bytes > PTRDIFF_MAX - kStep) throw MemoryError(join_parts("memory: cannot allocate ", bytes, " bytes"));
  const std::size_t rounded = (bytes + kStep - 1) / kStep * kStep;
  void* data = allocate_aligned(kMemoryAlignment, rounded > 0 ? rounded : kStep);
  if (data == nullptr) throw MemoryError(join_parts("memory: cannot allocate ", rounded, " bytes of scratch space"));
  slot = {static_cast<std::byte*>(data), rounded};
}

}  // namespace

std::byte* thread_scratch(int slot, std::size_t bytes) {
  check(slot >= 0 && slot < kScratchSlots, "thread_scratch: slot ", slot, " is not in 0 .. ", kScratchSlots - 1);
  Slot& chosen = slots[slot];
  if (chosen.data == nullptr || chosen.bytes < bytes) {
    grow(chosen, bytes);
  }
  return chosen.data;
}

}  // namespace headway::inline v0::internal

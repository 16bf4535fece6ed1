// Owned, aligned memory of tensors and scratch buffers.
#pragma once

#include <cstddef>
#include <utility>

#include "core/block_cache.h"

namespace headway::inline v0::internal {

inline constexpr std::size_t kMemoryAlignment = 64;             // one cache line, one AVX-512 register
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // blocks of at least kHugePageFrom are aligned to it
inline constexpr std::size_t kHugePageFrom = std::size_t{4} << 20;

// Memory that std::free() releases; null when it runs out, after the cached blocks were freed.
void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept;

// A block that give_block_back() frees. Never null, not even for zero bytes; throws an Error when memory runs out.
MemoryBlock allocate_block(std::size_t bytes);
// Large blocks are untouched zero pages of the system, so that the user's thread is the first to write to them.
MemoryBlock allocate_zeroed_block(std::size_t bytes);

// A block that is freed with its owner.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  explicit AlignedMemory(std::size_t bytes) : block_(allocate_block(bytes)), bytes_(bytes) {}
  AlignedMemory(AlignedMemory&& other) noexcept { swap(other); }
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    AlignedMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~AlignedMemory() {
    if (block_.data != nullptr) give_block_back(block_);
  }

  std::byte* data() const { return static_cast<std::byte*>(block_.data); }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(AlignedMemory& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
  }

  MemoryBlock block_;
  std::size_t bytes_ = 0;  // requested
};

}  // namespace headway::inline v0::internal

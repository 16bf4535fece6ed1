// Owned, aligned memory: under tensors and under scratch space.
#pragma once

#include <cstddef>
#include <utility>

namespace headway::inline v0::internal {

inline constexpr std::size_t kMemoryAlignment = 64;             // one cache line, one AVX-512 register
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;  // blocks of at least kHugePageFrom are aligned to it
inline constexpr std::size_t kHugePageFrom = std::size_t{4} << 20;

// A block that is freed with its owner. Never null, not even for zero bytes; throws an Error when memory runs out.
class AlignedMemory {
 public:
  AlignedMemory() = default;
  static AlignedMemory uninitialized(std::size_t bytes);
  // Large blocks come as untouched zero pages from the system, so that the first write to them is the user's.
  static AlignedMemory zeroed(std::size_t bytes);

  AlignedMemory(AlignedMemory&& other) noexcept { swap(other); }
  AlignedMemory& operator=(AlignedMemory&& other) noexcept {
    AlignedMemory(std::move(other)).swap(*this);
    return *this;
  }
  ~AlignedMemory();

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void swap(AlignedMemory& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(capacity_, other.capacity_);
    std::swap(mapped_, other.mapped_);
  }

  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;     // asked for
  std::size_t capacity_ = 0;  // allocated
  bool mapped_ = false;       // from mmap, not from the heap
};

}  // namespace headway::inline v0::internal

#include "core/aligned_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "core/block_cache.h"

namespace headway::inline v0::internal {
namespace {

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // only advice: a refusal costs speed, not correctness
#endif
}

// Fresh zero pages, aligned to a huge page; null when memory runs out.
void* map_zero_pages(std::size_t bytes) {
  const std::size_t padded = bytes + kHugePage;
  void* mapping = mmap(nullptr, padded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) {
    return nullptr;
  }
  auto* begin = static_cast<std::byte*>(mapping);
  const std::size_t before = (kHugePage - reinterpret_cast<std::uintptr_t>(begin) % kHugePage) % kHugePage;
  if (before > 0) {
    munmap(begin, before);
  }
  if (padded - before > bytes) {
    munmap(begin + before + bytes, padded - before - bytes);
  }
  return begin + before;
}

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  check(bytes <= PTRDIFF_MAX - 2 * kHugePage, "memory: cannot allocate ", bytes, " bytes");
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

AlignedMemory AlignedMemory::uninitialized(std::size_t bytes) {
  const bool huge = bytes >= kHugePageFrom;
  AlignedMemory memory;
  memory.bytes_ = bytes;
  const std::size_t rounded = round_up(bytes > 0 ? bytes : 1, kMemoryAlignment);
  if (const Block block = take_cached_block(rounded); block.data) {
    memory.data_ = static_cast<std::byte*>(block.data);
    memory.capacity_ = block.bytes;
    memory.mapped_ = block.mapped;
    return memory;
  }
  note_fresh_block(rounded);
  memory.capacity_ = rounded;
  void* data = nullptr;
  if (posix_memalign(&data, huge ? kHugePage : kMemoryAlignment, rounded) != 0) {
    fail("memory: cannot allocate ", bytes, " bytes");
  }
  if (huge) {
    advise_huge_pages(data, rounded / kHugePage * kHugePage);
  }
  memory.data_ = static_cast<std::byte*>(data);
  return memory;
}

AlignedMemory AlignedMemory::zeroed(std::size_t bytes) {
  if (bytes < kHugePageFrom) {
    AlignedMemory memory = uninitialized(bytes);
    std::memset(memory.data_, 0, bytes);
    return memory;
  }
  constexpr std::size_t kPage = std::size_t{64} << 10;  // the largest page size among the systems supported
  const std::size_t rounded = round_up(bytes, kPage);
  if (const Block block = take_cached_block(rounded); block.data) {
    AlignedMemory memory;
    memory.data_ = static_cast<std::byte*>(block.data);
    memory.bytes_ = bytes;
    memory.capacity_ = block.bytes;
    memory.mapped_ = block.mapped;
    std::memset(memory.data_, 0, bytes);
    return memory;
  }
  note_fresh_block(rounded);
  AlignedMemory memory;
  memory.data_ = static_cast<std::byte*>(map_zero_pages(rounded));
  check(memory.data_ != nullptr, "memory: cannot allocate ", bytes, " bytes");
  memory.bytes_ = bytes;
  memory.capacity_ = rounded;
  memory.mapped_ = true;
  advise_huge_pages(memory.data_, rounded);
  return memory;
}

AlignedMemory::~AlignedMemory() {
  if (data_) give_block_back({data_, capacity_, mapped_});
}

}  // namespace headway::inline v0::internal

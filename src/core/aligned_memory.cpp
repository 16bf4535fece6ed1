#include "core/aligned_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(data, bytes, MADV_HUGEPAGE);  // only advice: a refusal costs speed, not correctness
#endif
}

void* map_pages(std::size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

// Fresh zero pages, aligned to a huge page; null when memory runs out.
void* map_zero_pages(std::size_t bytes) {
  const std::size_t padded = bytes + kHugePage;
  void* mapping = map_pages(padded);
  if (mapping == MAP_FAILED && free_cached_blocks()) mapping = map_pages(padded);
  if (mapping == MAP_FAILED) return nullptr;
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

[[noreturn]] void fail_to_allocate(std::size_t bytes) {
  throw MemoryError(join_parts("memory: cannot allocate ", bytes, " bytes"));
}

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  if (bytes > PTRDIFF_MAX - 2 * kHugePage) fail_to_allocate(bytes);
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

void* allocate_aligned(std::size_t alignment, std::size_t bytes) noexcept {
  void* data = nullptr;
  if (posix_memalign(&data, alignment, bytes) == 0) return data;
  return free_cached_blocks() && posix_memalign(&data, alignment, bytes) == 0 ? data : nullptr;
}

MemoryBlock allocate_block(std::size_t bytes) {
  const bool huge = bytes >= kHugePageFrom;
  const std::size_t rounded = round_up(bytes > 0 ? bytes : 1, kMemoryAlignment);
  if (const MemoryBlock block = take_cached_block(rounded); block.data != nullptr) return block;
  void* data = allocate_aligned(huge ? kHugePage : kMemoryAlignment, rounded);
  if (data == nullptr) fail_to_allocate(bytes);
  note_fresh_block(rounded);
  if (huge) advise_huge_pages(data, rounded / kHugePage * kHugePage);
  return {.data = data, .bytes = rounded, .mapped = false};
}

MemoryBlock allocate_zeroed_block(std::size_t bytes) {
  if (bytes < kHugePageFrom) {
    const MemoryBlock block = allocate_block(bytes);
    std::memset(block.data, 0, bytes);
    return block;
  }
  constexpr std::size_t kPage = std::size_t{64} << 10;  // the largest page size among the systems supported
  const std::size_t rounded = round_up(bytes, kPage);
  if (const MemoryBlock block = take_cached_block(rounded); block.data != nullptr) {
    std::memset(block.data, 0, bytes);
    return block;
  }
  const MemoryBlock block = {.data = map_zero_pages(rounded), .bytes = rounded, .mapped = true};
  if (block.data == nullptr) fail_to_allocate(bytes);
  note_fresh_block(rounded);
  advise_huge_pages(block.data, rounded);
  return block;
}

}  // namespace headway::inline v0::internal

#include "failing_memory/failing_memory.h"

#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "core/block_cache.h"

namespace headway_test {
namespace {

constexpr std::int64_t kNever = INT64_MAX;

std::atomic<std::int64_t> first_failing{kNever};  // numbers of allocations
std::atomic<std::int64_t> last_failing{kNever};
std::atomic<std::int64_t> made{0};
std::atomic<std::int64_t> live{0};

bool fails() {
  if (first_failing.load() == kNever) return false;
  const std::int64_t number = ++made;
  return number >= first_failing.load() && number <= last_failing.load();
}

void* allocate(std::size_t bytes, std::size_t alignment) {
  void* data = nullptr;
  if (fails()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) {
    data = std::malloc(bytes > 0 ? bytes : 1);
  } else {
    data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  if (data != nullptr) ++live;
  return data;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* data = allocate(bytes, alignment);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}

void release(void* data) {
  if (data != nullptr) --live;
  std::free(data);
}

}  // namespace

void fail_allocation(std::int64_t number, Failing failing) {
  made = 0;
  last_failing = failing == Failing::once ? number : kNever - 1;
  first_failing = number;
}

bool stop_failing() {
  const std::int64_t number = first_failing.exchange(kNever);
  return made.load() >= number;
}

std::int64_t live_allocations() {
  headway::internal::free_cached_blocks();
  return live.load();
}

}  // namespace headway_test

using headway_test::allocate;
using headway_test::allocate_or_throw;
using headway_test::release;

constexpr std::size_t kPlain = alignof(std::max_align_t);

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void* operator new(std::size_t bytes, std::align_val_t to) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new[](std::size_t bytes, std::align_val_t to) {
  return allocate_or_throw(bytes, static_cast<std::size_t>(to));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, kPlain); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return allocate(bytes, kPlain); }

void operator delete(void* data) noexcept { release(data); }
void operator delete[](void* data) noexcept { release(data); }
void operator delete(void* data, std::size_t) noexcept { release(data); }
void operator delete[](void* data, std::size_t) noexcept { release(data); }
void operator delete(void* data, std::align_val_t) noexcept { release(data); }
void operator delete[](void* data, std::align_val_t) noexcept { release(data); }
void operator delete(void* data, std::size_t, std::align_val_t) noexcept { release(data); }
void operator delete[](void* data, std::size_t, std::align_val_t) noexcept { release(data); }
void operator delete(void* data, const std::nothrow_t&) noexcept { release(data); }
void operator delete[](void* data, const std::nothrow_t&) noexcept { release(data); }

// The linker sends Headway's calls here (--wrap).
extern "C" {

int __real_posix_memalign(void** data, std::size_t alignment, std::size_t bytes);
int __wrap_posix_memalign(void** data, std::size_t alignment, std::size_t bytes) {
  return headway_test::fails() ? ENOMEM : __real_posix_memalign(data, alignment, bytes);
}

void* __real_mmap(void* where, std::size_t bytes, int protection, int flags, int file, off_t offset);
void* __wrap_mmap(void* where, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  if (!headway_test::fails()) return __real_mmap(where, bytes, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}
}

#include "core/block_cache.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <mutex>
#include <new>
#include <optional>

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kAlwaysKept = std::size_t{64} << 20;

// The limit that the environment sets on the cache; nothing where it sets none.
std::optional<std::size_t> read_limit() {
#if defined(__SANITIZE_ADDRESS__)
  return 0;  // a reused block would hide a use after free
#else
  const char* text = std::getenv("HEADWAY_CACHE_MB");
  if (!text || !*text) return std::nullopt;
  char* end = nullptr;
  const unsigned long megabytes = std::strtoul(text, &end, 10);
  if (*end != '\0' || megabytes >= (1ul << 40)) return std::nullopt;
  return static_cast<std::size_t>(megabytes) << 20;
#endif
}

void free_block(const MemoryBlock& block) {
  if (block.mapped) {
    munmap(block.data, block.bytes);
  } else {
    std::free(block.data);
  }
}

// The bytes in use, and the most there ever were.
class Use {
 public:
  void add(std::size_t bytes) {
    const std::size_t now = bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    std::size_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void remove(std::size_t bytes) { bytes_.fetch_sub(bytes, std::memory_order_relaxed); }
  std::size_t below_peak() const {
    const std::size_t peak = peak_.load(std::memory_order_relaxed), now = bytes_.load(std::memory_order_relaxed);
    return peak > now ? peak - now : 0;
  }

 private:
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::size_t> peak_{0};
};

class BlockCache {
 public:
  MemoryBlock take(std::size_t bytes) {
    const auto found = by_size_.lower_bound(bytes);
    if (found == by_size_.end() || found->first > bytes + bytes / 4) return {};
    return remove(found);
  }

  // Frees the oldest blocks until what is kept, with `more` added, is within the limit; false where it cannot be.
  bool trim(std::size_t more) {
    const std::size_t allowed = limit_.value_or(std::max(kAlwaysKept, use.below_peak()));
    if (more > allowed) return false;
    while (total_ > allowed - more) free_block(remove(by_age_.front()));
    return true;
  }

  bool free_all() {
    const bool had_blocks = total_ > 0;
    while (!by_age_.empty()) free_block(remove(by_age_.front()));
    return had_blocks;
  }

  // Changes nothing where there is no memory for the entry, and throws.
  void keep(const MemoryBlock& block) {
    ByAge youngest(1);
    youngest.front() = by_size_.emplace(block.bytes, Entry{block, youngest.begin()});
    by_age_.splice(by_age_.end(), youngest);
    total_ += block.bytes;
  }

  // Only try_lock(): a thread that finds it locked uses the heap, as does a forked child that copied it locked.
  std::mutex mutex;
  Use use;

 private:
  struct Entry;
  using BySize = std::multimap<std::size_t, Entry>;
  using ByAge = std::list<BySize::iterator>;
  struct Entry {
    MemoryBlock block;
    ByAge::iterator age;
  };

  MemoryBlock remove(BySize::iterator place) {
    const MemoryBlock block = place->second.block;
    by_age_.erase(place->second.age);
    by_size_.erase(place);
    total_ -= block.bytes;
    return block;
  }

  const std::optional<std::size_t> limit_ = read_limit();
  std::size_t total_ = 0;
  BySize by_size_;
  ByAge by_age_;  // the oldest first
};

// Never destroyed: tensors may outlive every static object. Its first caller is take_cached_block(), which may throw.
BlockCache& cache() {
  static BlockCache* const instance = new BlockCache;
  return *instance;
}

}  // namespace

MemoryBlock take_cached_block(std::size_t bytes) {
  if (bytes < kCachedFrom) return {};
  const std::unique_lock lock(cache().mutex, std::try_to_lock);
  if (!lock) return {};
  const MemoryBlock block = cache().take(bytes);
  if (block.data) cache().use.add(block.bytes);
  return block;
}

void note_fresh_block(std::size_t bytes) noexcept {
  if (bytes < kCachedFrom) return;
  cache().use.add(bytes);
  const std::unique_lock lock(cache().mutex, std::try_to_lock);
  if (lock) cache().trim(0);
}

bool free_cached_blocks() noexcept {
  try {
    const std::unique_lock lock(cache().mutex, std::try_to_lock);
    return lock && cache().free_all();
  } catch (const std::bad_alloc&) {  // there is no cache yet
    return false;
  }
}

void give_block_back(const MemoryBlock& block) noexcept {
  if (block.bytes < kCachedFrom) return free_block(block);
  cache().use.remove(block.bytes);
  const std::unique_lock lock(cache().mutex, std::try_to_lock);
  try {
    if (lock && cache().trim(block.bytes)) return cache().keep(block);
  } catch (const std::bad_alloc&) {
  }
  free_block(block);
}

}  // namespace headway::inline v0::internal

#include "core/block_cache.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>

namespace headway::inline v0::internal {
namespace {

// Under AddressSanitizer a reused block would hide a use after free.
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kDefaultLimit = 0;
#else
constexpr std::size_t kDefaultLimit = std::size_t{64} << 20;
#endif

std::size_t read_limit() {
  const char* text = std::getenv("HEADWAY_CACHE_MB");
  if (!text || !*text) return kDefaultLimit;
  char* end = nullptr;
  const unsigned long megabytes = std::strtoul(text, &end, 10);
  return *end == '\0' && megabytes < (1ul << 40) ? static_cast<std::size_t>(megabytes) << 20 : kDefaultLimit;
}

class BlockCache {
 public:
  Block take(std::size_t bytes) {
    int best = -1;
    for (int i = 0; i < count_; ++i) {
      if (blocks_[i].bytes < bytes || blocks_[i].bytes > bytes + bytes / 4) continue;
      if (best < 0 || blocks_[i].bytes < blocks_[best].bytes) best = i;
    }
    return best < 0 ? Block{} : remove(best);
  }

  bool keep(Block block) {
    if (block.bytes > limit_) return false;
    while (count_ == kCapacity || total_ + block.bytes > limit_) std::free(remove(0).data);
    blocks_[count_++] = block;
    total_ += block.bytes;
    return true;
  }

  // Never waited for: whoever finds it taken goes to the heap, also in the child of a fork that copied it taken.
  std::mutex& mutex() { return mutex_; }

 private:
  static constexpr int kCapacity = 32;

  Block remove(int index) {
    const Block block = blocks_[index];
    std::move(blocks_ + index + 1, blocks_ + count_, blocks_ + index);
    --count_;
    total_ -= block.bytes;
    return block;
  }

  std::mutex mutex_;
  const std::size_t limit_ = read_limit();
  std::size_t total_ = 0;
  Block blocks_[kCapacity];  // the oldest first
  int count_ = 0;
};

// Never destroyed: tensors may outlive every static object.
BlockCache& cache() {
  static BlockCache* const instance = new BlockCache;
  return *instance;
}

}  // namespace

Block take_cached_block(std::size_t bytes) {
  if (bytes < kCachedFrom) return {};
  const std::unique_lock lock(cache().mutex(), std::try_to_lock);
  return lock ? cache().take(bytes) : Block{};
}

bool keep_cached_block(Block block) {
  if (block.bytes < kCachedFrom) return false;
  const std::unique_lock lock(cache().mutex(), std::try_to_lock);
  return lock && cache().keep(block);
}

}  // namespace headway::inline v0::internal

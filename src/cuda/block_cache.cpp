#include "cuda/block_cache.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace headway::inline v0::internal::cuda {
namespace {

constexpr std::size_t kSmallest = 512;
constexpr std::size_t kAlwaysKept = std::size_t{256} << 20;

// How large the driver's blocks are.
struct Capacities {
  std::mutex mutex;
  std::unordered_map<void*, std::size_t> of;

  // 0 for a block that is not known.
  std::size_t find(void* memory) {
    const std::lock_guard lock(mutex);
    const auto place = of.find(memory);
    return place == of.end() ? 0 : place->second;
  }

  // Never destroyed: tensors may outlive every static object.
  static Capacities& all() {
    static auto* const instance = new Capacities;
    return *instance;
  }
};

thread_local bool is_ending = false;  // without a destructor: it can be asked to the end

// The caches of a thread, one for each GPU that it used; with the thread its blocks go back to the driver.
struct ThreadCaches {
  std::array<std::unique_ptr<BlockCache>, kMostDevices> of = {};

  ~ThreadCaches() {
    is_ending = true;
    for (int device = 0; device < kMostDevices; ++device) {
      BlockCache* cache = of[static_cast<std::size_t>(device)].get();
      if (cache && cudaSetDevice(device) == cudaSuccess) cache->shrink(0);
    }
  }
};

}  // namespace

BlockCache* BlockCache::of_thread(int device) {
  if (is_ending) return nullptr;
  thread_local ThreadCaches caches;
  std::unique_ptr<BlockCache>& cache = caches.of[static_cast<std::size_t>(device)];
  if (!cache) cache = std::make_unique<BlockCache>();
  return cache.get();
}

// Capacities are multiples of 512 up to 16 of them; above, 2^n and 15 evenly spaced sizes between it and 2^(n + 1).
int BlockCache::shelf_of(std::size_t bytes) {
  const std::size_t units = std::max<std::size_t>(1, (bytes + kSmallest - 1) / kSmallest);
  if (units <= kSteps) return static_cast<int>(units - 1);
  const int shift = std::bit_width(units - 1) - 5;  // (units - 1) >> shift is in [16, 32)
  return shift * kSteps + static_cast<int>((units - 1) >> shift);
}

std::size_t BlockCache::capacity_of(std::size_t bytes) {
  const int shelf = shelf_of(bytes);
  if (shelf < kSteps) return static_cast<std::size_t>(shelf + 1) * kSmallest;
  const int shift = shelf / kSteps - 1;
  return (static_cast<std::size_t>(shelf % kSteps + kSteps) + 1) * kSmallest << shift;
}

void* BlockCache::take(std::size_t bytes) {
  Shelf& shelf = shelves_[static_cast<std::size_t>(shelf_of(bytes))];
  shelf.last_use = ++uses_;
  if (shelf.blocks.empty()) return nullptr;
  void* block = shelf.blocks.back();
  shelf.blocks.pop_back();
  const std::size_t capacity = capacity_of(bytes);
  kept_ -= capacity;
  add_to_use(capacity);
  return block;
}

void BlockCache::forget(void* memory) {
  const std::lock_guard lock(Capacities::all().mutex);
  Capacities::all().of.erase(memory);
}

void BlockCache::note_fresh(void* memory, std::size_t capacity) {
  {
    const std::lock_guard lock(Capacities::all().mutex);
    Capacities::all().of[memory] = capacity;
  }
  add_to_use(capacity);
  shrink(allowed());
}

bool BlockCache::keep(void* memory) {
  const std::size_t capacity = Capacities::all().find(memory);
  in_use_ -= static_cast<std::int64_t>(capacity);
  if (capacity == 0 || kept_ + capacity > allowed()) return false;
  Shelf& shelf = shelves_[static_cast<std::size_t>(shelf_of(capacity))];
  shelf.blocks.push_back(memory);
  shelf.capacity = capacity;
  kept_ += capacity;
  return true;
}

void BlockCache::add_to_use(std::size_t capacity) {
  in_use_ += static_cast<std::int64_t>(capacity);
  most_in_use_ = std::max(most_in_use_, in_use_);
}

std::size_t BlockCache::allowed() const {
  const std::int64_t below_most = most_in_use_ - std::max<std::int64_t>(0, in_use_);
  return std::max(kAlwaysKept, static_cast<std::size_t>(std::max<std::int64_t>(0, below_most)));
}

void BlockCache::shrink(std::size_t allowed) {
  while (kept_ > allowed) {
    Shelf* oldest = nullptr;
    for (Shelf& shelf : shelves_) {
      if (!shelf.blocks.empty() && (!oldest || shelf.last_use < oldest->last_use)) oldest = &shelf;
    }
    free_block(oldest->blocks.back());
    oldest->blocks.pop_back();
    kept_ -= oldest->capacity;
  }
}

}  // namespace headway::inline v0::internal::cuda

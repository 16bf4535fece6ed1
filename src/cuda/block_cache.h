// Freed blocks of a GPU's memory that wait to be used again: a look here costs the host far less than a call of the
// driver.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace headway::inline v0::internal::cuda {

inline constexpr int kMostDevices = 64;  // GPUs that a process can use

// Gives a block back to the driver, in the order of the thread's work. Never throws.
void free_block(void* memory) noexcept;

// The blocks that one thread gave back on one GPU. The thread's work is done in order, so a block may be used again at
// once. What is in use and what is kept stay together below the most that the thread ever had in use, or 256 MB are
// kept if that is more: a training step finds the memory of the step before, and the peak does not grow.
class BlockCache {
 public:
  // The calling thread's; null once the thread is ending.
  static BlockCache* of_thread(int device);
  // How large the block for that many bytes is: at most a sixteenth larger, or up to a multiple of 512.
  static std::size_t capacity_of(std::size_t bytes);

  // A block for that many bytes; null where there is none.
  void* take(std::size_t bytes);
  // Registers a block that the driver had to give, and frees cached ones for it.
  void note_fresh(void* memory, std::size_t capacity);
  // Takes a block back; false where it is not kept, as one is never that no thread has registered.
  bool keep(void* memory);
  // Registers for all threads that the driver gets a block back.
  static void forget(void* memory);
  // Frees blocks of the capacities that were longest not asked for until no more than `allowed` bytes are kept.
  void shrink(std::size_t allowed);

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

 private:
  // Blocks of one capacity.
  struct Shelf {
    std::vector<void*> blocks = {};
    std::size_t capacity = 0;
    std::uint64_t last_use = 0;
  };
  static constexpr int kSteps = 16;  // capacities from one power of two to the next
  static constexpr int kShelves = 64 * kSteps;

  static int shelf_of(std::size_t bytes);
  void add_to_use(std::size_t capacity);
  // How many bytes may be kept.
  std::size_t allowed() const;

  std::array<Shelf, kShelves> shelves_ = {};
  std::size_t kept_ = 0;          // bytes
  std::int64_t in_use_ = 0;       // bytes; blocks of other threads may make it less than zero
  std::int64_t most_in_use_ = 0;  // bytes
  std::uint64_t uses_ = 0;
};

}  // namespace headway::inline v0::internal::cuda

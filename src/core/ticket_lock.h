// A ticket lock: its holders have a fixed order, so that the tasks of one parallel_for add to shared sums in the same
// order on any number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/spin.h"

namespace headway::inline v0::internal {

// Locks, each with a counter of tickets that starts at zero. Where the tasks that share a lock have tickets in the
// order of their task numbers, parallel_for's ascending start guarantees that the task waited for is running or has
// ended.
class TicketLock {
 public:
  explicit TicketLock(std::int64_t count)
      : serving_(new std::atomic<std::int64_t>[static_cast<std::size_t>(count)] {}) {}

  // Returns when all tasks with smaller tickets have called next(); what they wrote is then visible.
  void wait(std::int64_t index, std::int64_t ticket) const {
    constexpr int kSpinsBeforeYield = 1000;
    for (int spins = 0; serving_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != ticket;) {
      if (spins < kSpinsBeforeYield) {
        ++spins;
        spin_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  // Releases the lock to the next ticket.
  void next(std::int64_t index) { serving_[static_cast<std::size_t>(index)].fetch_add(1, std::memory_order_release); }

 private:
  std::unique_ptr<std::atomic<std::int64_t>[]> serving_;  // (count): the ticket that is served now
};

}  // namespace headway::inline v0::internal

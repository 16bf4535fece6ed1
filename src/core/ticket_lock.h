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
// ended. A task that cannot go on cancels all tickets before it throws, so that no other waits for it.
class TicketLock {
 public:
  explicit TicketLock(std::int64_t count)
      : serving_(new std::atomic<std::int64_t>[static_cast<std::size_t>(count)] {}) {}

  // True when all tasks with smaller tickets have called next(); what they wrote is then visible. False where one of
  // them never will: the tickets were cancelled.
  bool wait(std::int64_t index, std::int64_t ticket) const {
    constexpr int kSpinsBeforeYield = 1000;
    for (int spins = 0; serving_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != ticket;) {
      if (cancelled_.load(std::memory_order_relaxed)) return false;
      if (spins < kSpinsBeforeYield) {
        ++spins;
        spin_pause();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }

  // Releases the lock to the next ticket.
  void next(std::int64_t index) { serving_[static_cast<std::size_t>(index)].fetch_add(1, std::memory_order_release); }

  // Ends all waiting, now and later.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }

 private:
  std::unique_ptr<std::atomic<std::int64_t>[]> serving_;  // (count): the ticket that is served now
  std::atomic<bool> cancelled_{false};
};

}  // namespace headway::inline v0::internal

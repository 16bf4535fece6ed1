// Turns: makes tasks of one parallel_for add to shared sums in a fixed order, whichever thread runs them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "core/spin.h"

namespace headway::inline v0::internal {

// A row of counters that start at zero. Where the tasks that share a counter wait for turns in the order of their task
// numbers, parallel_for's ascending start makes sure that the one waited for is running or has ended.
class TicketLock {
 public:
  explicit TicketLock(std::int64_t count) : turns_(new std::atomic<std::int64_t>[static_cast<std::size_t>(count)] {}) {}

  // Returns once `turn` tasks have passed, and sees all that they wrote before passing.
  void wait(std::int64_t index, std::int64_t turn) const {
    constexpr int kSpinsBeforeYield = 1000;
    for (int spins = 0; turns_[static_cast<std::size_t>(index)].load(std::memory_order_acquire) != turn;) {
      if (spins < kSpinsBeforeYield) {
        ++spins;
        spin_pause();
      } else {
        std::this_thread::yield();
      }
    }
  }

  // Ends the current turn and lets the next one in.
  void pass(std::int64_t index) { turns_[static_cast<std::size_t>(index)].fetch_add(1, std::memory_order_release); }

 private:
  std::unique_ptr<std::atomic<std::int64_t>[]> turns_;  // (count)
};

}  // namespace headway::inline v0::internal

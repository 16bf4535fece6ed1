// One call of parallel_for, as the threads that run it see it.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>

#include "base/function_ref.h"

namespace headway::inline v0::internal {

// Whether this thread runs a task of a parallel_for: a nested call then runs its tasks on this thread.
inline constinit thread_local bool inside_parallel_for = false;

// Marks the calling thread as being inside a parallel_for.
class InsideParallelFor {
 public:
  InsideParallelFor() : before_(inside_parallel_for) { inside_parallel_for = true; }
  ~InsideParallelFor() { inside_parallel_for = before_; }
  InsideParallelFor(const InsideParallelFor&) = delete;
  InsideParallelFor& operator=(const InsideParallelFor&) = delete;

 private:
  bool before_;
};

// Lives on the caller's stack, until no thread touches it any more.
struct ParallelJob {
  FunctionRef<void(std::int64_t, int)> body;
  std::int64_t task_count;
  std::atomic<std::int64_t> next_task{0};
  std::atomic<bool> failed{false};
  std::exception_ptr exception = nullptr;  // written by the one thread that sets `failed`

  // Claims tasks and runs them until none is left.
  void run(int worker) noexcept {
    const InsideParallelFor inside;
    try {
      for (std::int64_t task; (task = next_task.fetch_add(1, std::memory_order_relaxed)) < task_count;) {
        body(task, worker);
      }
    } catch (...) {
      next_task.store(task_count, std::memory_order_relaxed);
      if (!failed.exchange(true)) {
        exception = std::current_exception();
      }
    }
  }
};

}  // namespace headway::inline v0::internal

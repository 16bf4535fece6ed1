#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "core/ticket_lock.h"
#include "headway/error.h"
#include "headway/threads.h"
#include "support/thread_count.h"

#if defined(__SANITIZE_THREAD__)
#define HEADWAY_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEADWAY_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace headway {
namespace {

using headway_test::ThreadCount;
using internal::parallel_for;
using internal::TicketLock;

// Runs `body` in a child process and gives its exit status, or -1 when it hangs or dies.
template <typename Body>
int exit_status_in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    _exit(body());
  }
  for (int waited = 0; waited < 1000; ++waited) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1;
}

std::int64_t parallel_sum(std::int64_t count) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(count, [&](std::int64_t task, int) { sum += task; });
  return sum;
}

TEST(FunctionRef, CallsWhatItRefersTo) {
  int calls = 0;
  auto add = [&](int value) { return calls += value; };
  const internal::FunctionRef<int(int)> reference = add;
  EXPECT_EQ(reference(3), 3);
  EXPECT_EQ(reference(4), 7);
}

TEST(ParallelFor, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    const ThreadCount limit(threads);
    for (const std::int64_t count : {0, 1, 2, 3, 100, 10000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      parallel_for(count, [&](std::int64_t task, int worker) {
        ++runs[static_cast<std::size_t>(task)];
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, std::min<std::int64_t>(threads, count));
      });
      for (const auto& run : runs) {
        ASSERT_EQ(run.load(), 1);
      }
    }
  }
}

TEST(ParallelFor, NoTaskAtAllForNegativeCounts) {
  parallel_for(-5, [&](std::int64_t, int) { FAIL(); });
}

TEST(ParallelFor, WorkersAreNotSharedAtTheSameTime) {
  const ThreadCount limit(4);
  std::atomic<bool> in_use[4] = {};
  for (int repeat = 0; repeat < 200; ++repeat) {
    parallel_for(50, [&](std::int64_t, int worker) {
      EXPECT_FALSE(in_use[worker].exchange(true));
      in_use[worker].store(false);
    });
  }
}

// Each thread sees its tasks in ascending order, and when a task starts, all below it have been claimed.
TEST(ParallelFor, ClaimsInAscendingOrder) {
  const ThreadCount limit(4);
  constexpr std::int64_t kTasks = 2000;
  std::int64_t last[4] = {-1, -1, -1, -1};
  std::vector<std::atomic<bool>> started(kTasks);
  parallel_for(kTasks, [&](std::int64_t task, int worker) {
    EXPECT_GT(task, last[worker]);
    last[worker] = task;
    started[static_cast<std::size_t>(task)].store(true);
    // The thread that claimed a lower task runs it: it must appear without this task's end.
    for (std::int64_t below = std::max<std::int64_t>(0, task - 8); below < task; ++below) {
      while (!started[static_cast<std::size_t>(below)].load()) {
        std::this_thread::yield();
      }
    }
  });
}

TEST(ParallelFor, UsesSeveralThreads) {
  const ThreadCount limit(3);
  std::atomic<int> together{0};
  // Each of the three tasks waits for the other two, which must therefore be on threads of their own.
  parallel_for(3, [&](std::int64_t, int) {
    ++together;
    while (together.load() < 3) {
      std::this_thread::yield();
    }
  });
  EXPECT_EQ(together.load(), 3);
}

TEST(ParallelFor, NestedCallsRunInlineInOrder) {
  const ThreadCount limit(4);
  std::atomic<int> total{0};
  parallel_for(8, [&](std::int64_t, int) {
    const auto outer_thread = std::this_thread::get_id();
    std::int64_t expected = 0;
    parallel_for(10, [&](std::int64_t task, int worker) {
      EXPECT_EQ(std::this_thread::get_id(), outer_thread);
      EXPECT_EQ(worker, 0);
      EXPECT_EQ(task, expected++);
      ++total;
    });
  });
  EXPECT_EQ(total.load(), 80);
}

TEST(ParallelFor, SeveralCallersAtOnce) {
  const ThreadCount limit(3);
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 300; ++repeat) {
        wrong += parallel_sum(64) != 64 * 63 / 2;
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(wrong.load(), 0);
}

TEST(ParallelFor, ThreadCountMayChangeBetweenAndDuringCalls) {
  const ThreadCount limit(2);
  std::atomic<bool> stop{false};
  std::thread changer([&] {
    for (int count = 1; !stop.load(); count = count % 5 + 1) {
      set_num_threads(count);
    }
  });
  for (int repeat = 0; repeat < 500; ++repeat) {
    EXPECT_EQ(parallel_sum(40), 40 * 39 / 2);
  }
  stop = true;
  changer.join();
}

TEST(ParallelFor, WritesOfTasksAreSeenByTheCaller) {
  const ThreadCount limit(4);
  for (int repeat = 0; repeat < 300; ++repeat) {
    std::vector<int> plain(64, 0);
    parallel_for(64, [&](std::int64_t task, int) { plain[static_cast<std::size_t>(task)] = static_cast<int>(task); });
    for (int i = 0; i < 64; ++i) {
      ASSERT_EQ(plain[static_cast<std::size_t>(i)], i);
    }
  }
}

TEST(ParallelFor, SleepersWakeUp) {
  const ThreadCount limit(4);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(repeat % 3));
    EXPECT_EQ(parallel_sum(100), 100 * 99 / 2);
  }
}

TEST(ParallelFor, CallerSleepsThroughALongLastTask) {
  const ThreadCount limit(2);
  std::atomic<int> started{0};
  std::atomic<int> ended{0};
  parallel_for(2, [&](std::int64_t, int worker) {
    ++started;
    while (started.load() < 2) {
      std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(worker == 0 ? 0 : 20));
    ++ended;
  });
  EXPECT_EQ(ended.load(), 2);
}

TEST(ParallelFor, RethrowsTheFirstExceptionAfterAllStopped) {
  for (const int threads : {1, 4}) {
    const ThreadCount limit(threads);
    std::atomic<int> running{0};
    std::atomic<std::int64_t> runs{0};
    try {
      parallel_for(1000000, [&](std::int64_t task, int) {
        ++running;
        ++runs;
        if (task == 100) {
          --running;
          throw std::runtime_error("task 100");
        }
        --running;
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 100");
    }
    EXPECT_EQ(running.load(), 0);
    EXPECT_LT(runs.load(), 1000000);
    EXPECT_EQ(parallel_sum(100), 100 * 99 / 2);
  }
}

// Sums of floats depend on their order, so equal bits mean the same order.
TEST(TicketLock, MakesSumsIndependentOfTheThreadCount) {
  constexpr std::int64_t kTasks = 600;
  constexpr std::int64_t kSums = 7;
  const auto sums = [&](int threads) {
    const ThreadCount limit(threads);
    std::vector<float> result(kSums, 0.0f);
    TicketLock locks(kSums);
    parallel_for(kTasks, [&](std::int64_t task, int) {
      const std::int64_t index = task % kSums;
      const float term = 1.0f / (1.0f + static_cast<float>(task * 7919 % 1000));
      locks.wait(index, task / kSums);
      result[static_cast<std::size_t>(index)] += term;
      locks.next(index);
    });
    return result;
  };
  const std::vector<float> expected = sums(1);
  for (const int threads : {2, 3, 8}) {
    for (int repeat = 0; repeat < 20; ++repeat) {
      EXPECT_EQ(sums(threads), expected);
    }
  }
}

TEST(Threads, CountIsCheckedAndCapped) {
  const ThreadCount limit(2);
  EXPECT_EQ(num_threads(), 2);
  EXPECT_EQ(internal::worker_limit(), 2);
  EXPECT_THROW(set_num_threads(0), Error);
  EXPECT_THROW(set_num_threads(-3), Error);
  EXPECT_EQ(num_threads(), 2);
  set_num_threads(1000000);
  EXPECT_EQ(num_threads(), 1024);
}

TEST(Scratch, GrowsAndStays) {
  std::byte* small = internal::thread_scratch(0, 1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 64, 0u);
  EXPECT_EQ(internal::thread_scratch(0, 500), small);
  std::byte* large = internal::thread_scratch(0, 1 << 20);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % 64, 0u);
  large[(1 << 20) - 1] = std::byte{1};
  EXPECT_EQ(internal::thread_scratch(0, 1000), large);
  EXPECT_NE(internal::thread_scratch(1, 1000), large);
  std::byte* elsewhere = nullptr;
  std::thread([&] { elsewhere = internal::thread_scratch(0, 1000); }).join();
  EXPECT_NE(elsewhere, large);
  EXPECT_NE(internal::thread_scratch(2, 0), nullptr);
  EXPECT_THROW(internal::thread_scratch(4, 1), Error);
}

TEST(Scratch, BufferIsAligned) {
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{100}, std::size_t{5} << 20}) {
    const internal::ScratchBuffer buffer(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
    EXPECT_EQ(buffer.bytes(), bytes);
    if (bytes > 0) {
      buffer.data()[bytes - 1] = std::byte{1};
    }
  }
}

// ThreadSanitizer does not follow threads that a forked child starts. qemu 7.2 fails an assertion of its own when one
// does, and cannot start this program again.
#if !defined(HEADWAY_TEST_THREAD_SANITIZER) && !defined(HEADWAY_TEST_EMULATED)

TEST(Fork, ChildComputesWithThreadsOfItsOwn) {
  const ThreadCount limit(3);
  ASSERT_EQ(parallel_sum(1000), 1000 * 999 / 2);
  const int status = exit_status_in_child([] {
    std::atomic<int> together{0};
    parallel_for(3, [&](std::int64_t, int) {
      ++together;
      while (together.load() < 3) {
        std::this_thread::yield();
      }
    });
    return num_threads() == 3 && parallel_sum(1000) == 1000 * 999 / 2 ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(parallel_sum(1000), 1000 * 999 / 2);
}

TEST(Fork, WhileAnotherThreadComputes) {
  const ThreadCount limit(3);
  std::atomic<bool> stop{false};
  std::thread computing([&] {
    while (!stop.load()) {
      parallel_sum(100);
    }
  });
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_EQ(exit_status_in_child([] { return parallel_sum(1000) == 1000 * 999 / 2 ? 0 : 1; }), 0);
  }
  stop = true;
  computing.join();
}

// Some things show only in a fresh process: this program starts itself again with a role, and the copy ends before main
// with a status that reports what it saw.
constexpr const char* kRole = "HEADWAY_TEST_ROLE";

int tell_threads() {
  try {
    return num_threads() == 5 ? 50 : num_threads() == 1024 ? 51 : 52;
  } catch (const Error& error) {
    const std::string text = error.what();
    const std::string value = std::getenv("HEADWAY_NUM_THREADS");
    const bool names_both =
        text.find("HEADWAY_NUM_THREADS") != std::string::npos && text.find(value) != std::string::npos;
    return names_both ? 60 : 61;
  }
}

int compute_in_a_detached_thread() {
  static std::atomic<bool> begun{false};
  set_num_threads(3);
  std::thread([] {
    while (true) {
      parallel_sum(1000);
      begun = true;
    }
  }).detach();
  while (!begun.load()) {
    std::this_thread::yield();
  }
  return 7;
}

[[maybe_unused]] const bool role_played = [] {
  if (const char* role = std::getenv(kRole)) {
    std::exit(std::string_view(role) == "exit" ? compute_in_a_detached_thread() : tell_threads());
  }
  return false;
}();

int exit_status_in_role(const char* role, const char* thread_count) {
  return exit_status_in_child([=] {
    setenv(kRole, role, 1);
    setenv("HEADWAY_NUM_THREADS", thread_count, 1);
    execl("/proc/self/exe", "core_threads_test", nullptr);
    return 99;
  });
}

TEST(Environment, NumberOfThreads) {
  EXPECT_EQ(exit_status_in_role("tell_threads", "5"), 50);
  EXPECT_EQ(exit_status_in_role("tell_threads", "99999"), 51);
  for (const char* malformed : {"", "0", "-2", "many", "4x", "99999999999999999999", " "}) {
    EXPECT_EQ(exit_status_in_role("tell_threads", malformed), 60) << malformed;
  }
}

TEST(Exit, WhileADetachedThreadComputes) { EXPECT_EQ(exit_status_in_role("exit", "3"), 7); }

#endif

}  // namespace
}  // namespace headway

// parallel_for in a process that has PyTorch's threads, with a library that stands in for PyTorch's.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/thread_pool.h"
#include "core/ticket_lock.h"
#include "headway/error.h"
#include "headway/ops.h"
#include "headway/threads.h"
#include "stand_in/torch_openmp.h"
#include "support/bits.h"
#include "support/cases.h"
#include "support/child_process.h"

#if defined(__SANITIZE_THREAD__)
#define HEADWAY_TEST_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HEADWAY_TEST_THREAD_SANITIZER 1
#endif
#endif

namespace headway_test {
namespace {

using headway::num_threads;
using headway::set_num_threads;
using headway::internal::parallel_for;
using headway::internal::TicketLock;

// Attention forward and backward whose sums are cut over tasks, and a product of matrices.
std::vector<Named> computed() {
  std::vector<Case> cases = {sized(DType::float32, 1, 1, {300, 300, 40, 40}),
                             sized(DType::bfloat16, 1, 6, {200, 210, 64, 64}),
                             sized(DType::float32, 2, 4, {150, 150, 32, 32})};
  cases[1].kv_heads = 2;
  cases[1].causal = Causal::bottom_right;
  cases[2].dropout = 0.3;
  cases[2].bias = true;
  cases[2].bias_extent = Extent::query_key;
  std::vector<Named> results;
  for (const Case& c : cases) results.push_back(run(build(c)));
  const Tensor a = Tensor::empty({300, 200}, DType::float32), b = Tensor::empty({200, 350}, DType::float32);
  for (std::int64_t i = 0; i < a.element_count(); ++i) a.data<float>()[i] = static_cast<float>(i * 7919 % 1000) - 500;
  for (std::int64_t i = 0; i < b.element_count(); ++i) b.data<float>()[i] = static_cast<float>(i * 104729 % 997) / 997;
  results.push_back({{"product", headway::matmul(a, b)}});
  return results;
}

std::int64_t parallel_sum(std::int64_t count) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(count, [&](std::int64_t task, int) { sum += task; });
  return sum;
}

// Sums of floats depend on their order, which tickets fix.
std::vector<float> ticket_sums() {
  constexpr std::int64_t kTasks = 600;
  constexpr std::int64_t kSums = 7;
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
}

TorchOpenMp* torch = nullptr;

// Results of our own pool first, then the library is loaded. No test calls set_num_threads() in this process.
class OpenMpThreads : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (torch != nullptr) return;
    own_results = computed();
    own_sums = ticket_sums();
    threads_before = num_threads();
    void* library = dlopen(HEADWAY_TEST_TORCH_OPENMP, RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    torch = reinterpret_cast<TorchOpenMp* (*)()>(dlsym(library, kTorchOpenMpName))();
    regions_before = torch->regions;
    threads_after = num_threads();
  }
  void SetUp() override {
    ASSERT_NE(torch, nullptr);
    torch->threads = 3;
    torch->missing = 0;
  }
  void TearDown() override {
    EXPECT_EQ(torch->other_size, 0);
    torch->set_after_region(AfterRegion::end);
  }

  static inline std::vector<Named> own_results;
  static inline std::vector<float> own_sums;
  static inline int threads_before = 0, threads_after = 0, regions_before = 0;
};

TEST_F(OpenMpThreads, AreNoticedWhenTheLibraryIsLoaded) {
  EXPECT_EQ(regions_before, 0);
  EXPECT_EQ(threads_after, 3);
  const int regions = torch->regions;
  EXPECT_EQ(parallel_sum(100), 100 * 99 / 2);
  EXPECT_EQ(torch->regions, regions + 1);
}

TEST_F(OpenMpThreads, NumberIsPyTorchs) {
  for (const int threads : {5, 1, 2, 3}) {
    torch->threads = threads;
    EXPECT_EQ(num_threads(), threads);
    EXPECT_EQ(headway::internal::worker_limit(), threads);
  }
}

TEST_F(OpenMpThreads, RunEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    torch->threads = threads;
    for (const std::int64_t count : {0, 1, 2, 3, 100, 5000}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(count));
      parallel_for(count, [&](std::int64_t task, int worker) {
        ++runs[static_cast<std::size_t>(task)];
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, std::min<std::int64_t>(threads, count));
      });
      for (const auto& each : runs) ASSERT_EQ(each.load(), 1);
    }
  }
}

TEST_F(OpenMpThreads, CallerIsWorkerZeroAndNoneIsShared) {
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> in_use[3] = {};
  for (int repeat = 0; repeat < 100; ++repeat) {
    parallel_for(50, [&](std::int64_t, int worker) {
      EXPECT_EQ(worker == 0, std::this_thread::get_id() == caller);
      EXPECT_FALSE(in_use[worker].exchange(true));
      in_use[worker].store(false);
    });
  }
}

// Calls of parallel_for until one of them is, or is not, in a region of PyTorch's; false where none was for ten
// seconds.
bool until_in_region(bool expected) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < end) {
    const int before = torch->regions;
    parallel_sum(64);
    if ((torch->regions > before) == expected) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST_F(OpenMpThreads, AreLeftAloneWhileTheySleep) {
  torch->set_after_region(AfterRegion::sleep);
  parallel_sum(64);
  EXPECT_TRUE(until_in_region(false));
  // They stay asleep, so from now on every call is our own.
  const int before = torch->regions;
  for (int repeat = 0; repeat < 20; ++repeat) EXPECT_EQ(parallel_sum(64), 64 * 63 / 2);
  EXPECT_EQ(torch->regions, before);
  const std::vector<Named> results = computed();
  for (std::size_t i = 0; i < results.size(); ++i) expect_same_bits(results[i], own_results[i]);
  torch->set_after_region(AfterRegion::end);
  EXPECT_TRUE(until_in_region(true));  // their threads have ended, and others may be awake
}

TEST_F(OpenMpThreads, AreUsedWhileTheySpin) {
  if (threads_before == 1) GTEST_SKIP() << "one processor: no other thread runs while this one looks";
  torch->threads = 2;
  torch->set_after_region(AfterRegion::spin);
  parallel_sum(64);
  EXPECT_TRUE(until_in_region(true));
}

TEST_F(OpenMpThreads, RunTogether) {
  std::atomic<int> together{0};
  // Each of the three tasks waits for the other two, which must therefore be on threads of their own.
  parallel_for(3, [&](std::int64_t, int) {
    ++together;
    while (together.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(together.load(), 3);
}

TEST_F(OpenMpThreads, GiveTheBitsOfOurOwnPool) {
  for (const int threads : {1, 2, 3, 5}) {
    SCOPED_TRACE(std::to_string(threads) + " threads");
    torch->threads = threads;
    const int regions = torch->regions;
    const std::vector<Named> results = computed();
    EXPECT_EQ(torch->regions > regions, threads > 1);
    for (std::size_t i = 0; i < results.size(); ++i) expect_same_bits(results[i], own_results[i]);
  }
}

TEST_F(OpenMpThreads, KeepTheOrderOfTickets) {
  for (const int threads : {2, 3, 8}) {
    torch->threads = threads;
    for (int repeat = 0; repeat < 10; ++repeat) EXPECT_EQ(ticket_sums(), own_sums);
  }
}

TEST_F(OpenMpThreads, TeamMayBeSmaller) {
  for (const int missing : {1, 2}) {
    torch->missing = missing;
    EXPECT_EQ(parallel_sum(1000), 1000 * 999 / 2);
    EXPECT_EQ(ticket_sums(), own_sums);
    const std::vector<Named> results = computed();
    for (std::size_t i = 0; i < results.size(); ++i) expect_same_bits(results[i], own_results[i]);
  }
}

TEST_F(OpenMpThreads, ExceptionsReachTheCaller) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<std::int64_t> runs{0};
    try {
      parallel_for(1000000, [&](std::int64_t task, int) {
        ++runs;
        if (task == 100) throw std::runtime_error("task 100");
      });
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "task 100");
    }
    EXPECT_LT(runs.load(), 1000000);
    EXPECT_EQ(parallel_sum(100), 100 * 99 / 2);
  }
}

TEST_F(OpenMpThreads, NestedCallsRunInlineInOrder) {
  const int regions = torch->regions;
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
  EXPECT_EQ(torch->regions, regions + 1);
}

TEST_F(OpenMpThreads, CallsInsideARegionOfPyTorchsRunInline) {
  const int regions = torch->regions;
  std::atomic<int> calls{0};
  const auto in_region = [](void* data) {
    const auto thread = std::this_thread::get_id();
    parallel_for(10, [&](std::int64_t, int worker) {
      EXPECT_EQ(std::this_thread::get_id(), thread);
      EXPECT_EQ(worker, 0);
      ++*static_cast<std::atomic<int>*>(data);
    });
  };
  torch->parallel(in_region, &calls, 0, 0);
  EXPECT_EQ(calls.load(), 30);
  EXPECT_EQ(torch->regions, regions + 1);
}

TEST_F(OpenMpThreads, SeveralCallersHaveTeamsOfTheirOwn) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int repeat = 0; repeat < 50; ++repeat) wrong += parallel_sum(64) != 64 * 63 / 2;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

// ThreadSanitizer does not follow threads that a forked child starts. qemu 7.2 fails an assertion of its own when one
// does, and cannot start this program again.
#if !defined(HEADWAY_TEST_THREAD_SANITIZER) && !defined(HEADWAY_TEST_EMULATED)

TEST_F(OpenMpThreads, ChildHasThreadsOfItsOwn) {
  ASSERT_EQ(parallel_sum(1000), 1000 * 999 / 2);
  const pid_t child = start_process([] {
    const int regions = torch->regions;
    std::atomic<int> together{0};
    parallel_for(3, [&](std::int64_t, int) {
      ++together;
      while (together.load() < 3) std::this_thread::yield();
    });
    torch->threads = 2;
    const bool right = ticket_sums() == own_sums && torch->regions == regions && num_threads() == 2;
    if (!right) throw std::runtime_error("the child did not compute on threads of its own");
  });
  EXPECT_TRUE(ends_within(child, std::chrono::seconds(20)));
  EXPECT_EQ(parallel_sum(1000), 1000 * 999 / 2);
}

// What is chosen for a whole process: the body runs in a fresh one, which loads the library as this one did.
class ChosenThreads : public OpenMpThreads {
 protected:
  void SetUp() override {
    OpenMpThreads::SetUp();
    GTEST_FLAG_SET(death_test_style, "threadsafe");
  }
};

// Ends the process with 0 where the work was spread over `expected_threads`, in a region of PyTorch's or not.
[[noreturn]] void tell(TorchOpenMp& torch, int expected_threads, bool expected_region) {
  const int regions = torch.regions;
  std::atomic<int> highest{0};
  std::atomic<int> together{0};
  parallel_for(expected_threads, [&](std::int64_t, int worker) {
    for (int before = highest; worker > before && !highest.compare_exchange_weak(before, worker);) {
    }
    ++together;
    while (together.load() < expected_threads) std::this_thread::yield();
  });
  const bool right = num_threads() == expected_threads && highest == expected_threads - 1 &&
                     torch.regions == regions + (expected_region ? 1 : 0) && ticket_sums().size() == 7;
  std::cerr << num_threads() << " threads, highest worker " << highest << ", " << torch.regions - regions
            << " regions\n";
  std::exit(right ? 0 : 1);
}

TEST_F(ChosenThreads, FewerThanTheTeamStayInTheTeam) {
  EXPECT_EXIT((set_num_threads(2), tell(*torch, 2, true)), testing::ExitedWithCode(0), "");
}

TEST_F(ChosenThreads, MoreThanTheTeamAreOurOwn) {
  EXPECT_EXIT((set_num_threads(5), tell(*torch, 5, false)), testing::ExitedWithCode(0), "");
}

TEST_F(ChosenThreads, EnvironmentSetsTheNumber) {
  setenv("HEADWAY_NUM_THREADS", "2", 1);
  EXPECT_EXIT(tell(*torch, 2, true), testing::ExitedWithCode(0), "");
  unsetenv("HEADWAY_NUM_THREADS");
}

TEST_F(ChosenThreads, EnvironmentChoosesOurOwn) {
  setenv("HEADWAY_THREADS", "own", 1);
  EXPECT_EXIT(tell(*torch, 3, false), testing::ExitedWithCode(0), "");
  unsetenv("HEADWAY_THREADS");
}

TEST_F(ChosenThreads, EnvironmentChoosesOpenMp) {
  setenv("HEADWAY_THREADS", "openmp", 1);
  EXPECT_EXIT(tell(*torch, 3, true), testing::ExitedWithCode(0), "");
  unsetenv("HEADWAY_THREADS");
}

TEST(ThreadsVariable, IsChecked) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const char* malformed : {"", "OpenMP", "own ", "2"}) {
    setenv("HEADWAY_THREADS", malformed, 1);
    const auto tell_error = [] {
      try {
        num_threads();
      } catch (const headway::Error& error) {
        std::cerr << error.what();
        std::exit(3);
      }
      std::exit(4);
    };
    EXPECT_EXIT(tell_error(), testing::ExitedWithCode(3),
                "HEADWAY_THREADS is \"" + std::string(malformed) + "\", expected \"own\" or \"openmp\"");
  }
  unsetenv("HEADWAY_THREADS");
}

#endif

}  // namespace
}  // namespace headway_test

// Gradients from several threads: into one leaf, and through one record.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "headway/autograd.h"
#include "headway/error.h"
#include "headway/ops.h"
#include "headway/tensor.h"
#include "headway/threads.h"

namespace {

using headway::Tensor;

constexpr int kThreads = 4;
constexpr std::int64_t kSize = 1000;

// Starts all threads at the same moment and waits for their ends.
void on_threads(const std::function<void(int)>& body) {
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      ++ready;
      while (ready.load() < kThreads) std::this_thread::yield();
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Tensor leaf_of_ones() { return Tensor::full({kSize}, 1.0).set_requires_grad(); }

// Whole numbers, whose sums do not depend on their order.
Tensor whole_numbers(int thread) { return Tensor::full({kSize}, 1.0 + thread); }

TEST(SharedLeaf, SumsWhatAllThreadsAdd) {
  constexpr int kRounds = 50, kCalls = 20;
  for (int round = 0; round < kRounds; ++round) {
    const Tensor leaf = leaf_of_ones();
    on_threads([&](int thread) {
      const Tensor factor = whole_numbers(thread);
      for (int i = 0; i < kCalls; ++i) sum(mul(leaf, factor)).backward();
    });
    for (const double value : leaf.grad().to_vector()) ASSERT_EQ(value, kCalls * (1 + 2 + 3 + 4)) << round;
  }
}

// A gradient that a thread holds does not change under it.
TEST(SharedLeaf, GradientsAreReadMeanwhile) {
  const Tensor leaf = leaf_of_ones();
  on_threads([&](int thread) {
    for (int i = 0; i < 200; ++i) {
      if (thread > 0) {
        sum(leaf).backward();
      } else if (const Tensor held = leaf.grad(); held.defined()) {
        const std::vector<double> values = held.to_vector();
        EXPECT_EQ(values, std::vector<double>(kSize, values.front()));
      }
    }
  });
  EXPECT_EQ(leaf.grad().at({0}), 600);
}

TEST(SharedLeaf, GradientsAreClearedMeanwhile) {
  const Tensor leaf = leaf_of_ones();
  std::atomic<int> cleared{0};
  on_threads([&](int thread) {
    for (int i = 0; i < 200; ++i) {
      if (thread > 0) {
        sum(leaf).backward();
      } else {
        leaf.set_grad({});
        ++cleared;
      }
    }
  });
  EXPECT_EQ(cleared.load(), 200);
  EXPECT_LE(leaf.grad().defined() ? leaf.grad().at({0}) : 0.0, 600);
}

TEST(SharedRecord, IsRetainedForAll) {
  const Tensor leaf = leaf_of_ones();
  const Tensor loss = sum(mul(leaf, whole_numbers(1)));
  on_threads([&](int) {
    for (int i = 0; i < 50; ++i) loss.backward({}, /*retain_graph=*/true);
  });
  EXPECT_EQ(leaf.grad().at({7}), kThreads * 50 * 2);
}

// One thread goes through the record and frees it; the others get an error, or come in time where they retain.
TEST(SharedRecord, IsFreedByOne) {
  for (int round = 0; round < 100; ++round) {
    const Tensor leaf = leaf_of_ones();
    const Tensor loss = sum(mul(leaf, whole_numbers(0)));
    std::atomic<int> whole{0}, freed{0};
    on_threads([&](int thread) {
      try {
        loss.backward({}, /*retain_graph=*/thread == 0);
        ++whole;
      } catch (const headway::Error&) {
        ++freed;
      }
    });
    EXPECT_EQ(whole + freed, kThreads);
    ASSERT_GE(whole, 1);
    ASSERT_LE(whole, 2);
  }
}

}  // namespace

// What threads share: one module for inference and for training, while the number of threads changes and the process
// forks.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "headway/attention.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/random.h"
#include "headway/threads.h"
#include "headway/transformer.h"
#include "support/bits.h"
#include "support/thread_count.h"

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kAddressSanitizer = true;
#else
constexpr bool kAddressSanitizer = false;
#endif

namespace {

using headway::Tensor;

constexpr int kThreads = 4;
constexpr int kCalls = kThreadSanitizer ? 5 : 20;

// Runs the body on several threads and, meanwhile, `beside` on this one until they have ended.
void on_threads(const std::function<void(int)>& body, const std::function<void()>& beside = {}) {
  std::atomic<int> running{kThreads};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      body(i);
      --running;
    });
  }
  while (beside && running.load() > 0) beside();
  for (std::thread& thread : threads) thread.join();
}

void change_thread_count() {
  static int count = 0;
  headway::set_num_threads(1 + ++count % 4);
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

headway::Transformer small_transformer() {
  headway::set_random_seed(3);
  return headway::Transformer({.layer = {.d_model = 32, .nhead = 4, .dim_feedforward = 64, .dropout = 0.0},
                               .num_encoder_layers = 1,
                               .num_decoder_layers = 1});
}

headway::TransformerInput input_of(int thread) {
  const auto seed = static_cast<std::uint64_t>(10 + thread);
  return {.source = Tensor::randn({2, 40, 32}, seed), .target = Tensor::randn({2, 30, 32}, seed + 100)};
}

TEST(SharedModule, InfersOnManyThreadsWhileTheirNumberChanges) {
  const headway_test::ThreadCount restore(2);
  const headway::Transformer model = small_transformer();
  model.eval();
  std::vector<Tensor> expected;
  for (int i = 0; i < kThreads; ++i) expected.push_back(model.forward(input_of(i)).output.detach());
  on_threads(
      [&](int thread) {
        const headway::NoGradGuard no_grad;
        for (int call = 0; call < kCalls; ++call) {
          const Tensor output = model.forward(input_of(thread)).output;
          EXPECT_TRUE(headway_test::same_bits(output, expected[static_cast<std::size_t>(thread)]));
        }
      },
      change_thread_count);
}

// Each thread has its own batch, all add to the gradients of the same parameters.
TEST(SharedModule, TrainsOnManyThreads) {
  const headway_test::ThreadCount restore(2);
  const headway::Transformer model = small_transformer();
  headway::AdamW optimizer(model);
  const auto loss_of = [&](int thread) {
    const Tensor output = model.forward(input_of(thread)).output;
    return mean(mul(output, output));
  };
  for (int i = 0; i < kThreads; ++i) loss_of(i).backward();
  std::vector<std::pair<std::string, Tensor>> expected;
  for (const auto& [name, parameter] : model.named_parameters()) expected.emplace_back(name, parameter.grad().clone());
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    on_threads([&](int thread) { loss_of(thread).backward(); }, change_thread_count);
    std::size_t index = 0;
    for (const auto& [name, parameter] : model.named_parameters()) {
      // The order of the sums is that of the threads' arrival.
      EXPECT_TRUE(headway_test::near(parameter.grad(), expected[index++].second, 1e-5)) << name;
    }
  }
  optimizer.step();
}

// A child has none of the threads, and computes with its own.
TEST(SharedModule, ForksMeanwhile) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer does not follow threads that a forked child starts";
  if (kAddressSanitizer) GTEST_SKIP() << "AddressSanitizer's allocator may be locked in a forked child";
  const headway_test::ThreadCount restore(3);
  const headway::Transformer model = small_transformer();
  model.eval();
  const Tensor expected = model.forward(input_of(0)).output.detach();
  std::atomic<int> failures{0};
  on_threads(
      [&](int thread) {
        for (int call = 0; call < kCalls; ++call) mean(model.forward(input_of(thread)).output).backward();
      },
      [&] {
        const pid_t child = ::fork();
        if (child == 0) {
          ::alarm(20);
          const Tensor output = model.forward(input_of(0)).output;
          const Tensor leaf = Tensor::randn({8, 8}, 1).set_requires_grad();
          sum(matmul(leaf, leaf)).backward();
          ::_exit(headway_test::same_bits(output, expected) ? 0 : 1);
        }
        int status = -1;
        ::waitpid(child, &status, 0);
        failures += status != 0;
      });
  EXPECT_EQ(failures.load(), 0);
}

// Where the system starts no more threads, fewer compute the same.
TEST(Threads, ComputeWithFewerWhereNoneCanBeStarted) {
  if (kThreadSanitizer || kAddressSanitizer) GTEST_SKIP() << "sanitizers need address space of their own";
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    headway::AttentionBackward problem;
    problem.query = problem.key = problem.value = problem.d_output = Tensor::randn({1, 2, 200, 16}, 1);
    headway::set_num_threads(1);
    const headway_test::Named expected = headway_test::run(problem);
    sigset_t before, after;
    ::pthread_sigmask(SIG_SETMASK, nullptr, &before);
    rlimit limit = {};
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = std::size_t{64} << 20;  // less than is mapped already, so that no stack can be
    ::setrlimit(RLIMIT_AS, &limit);
    headway::set_num_threads(8);
    const headway_test::Named results = headway_test::run(problem);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!headway_test::same_bits(results[i].second, expected[i].second)) ::_exit(1);
    }
    ::pthread_sigmask(SIG_SETMASK, nullptr, &after);
    ::_exit(::sigismember(&after, SIGTERM) == ::sigismember(&before, SIGTERM) ? 0 : 2);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace

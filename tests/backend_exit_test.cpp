// The end of a process: static objects and detached threads that compute while others are destroyed.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "headway/attention.h"
#include "headway/ops.h"
#include "headway/threads.h"
#include "support/bits.h"
#include "support/cases.h"

namespace {

using headway::Tensor;

constexpr int kRight = 7, kWrong = 8;
constexpr const char* kRole = "HEADWAY_TEST_ROLE";

// The forward and the backward of attention, and a product with its gradient.
headway_test::Named compute() {
  headway::AttentionBackward problem;
  problem.query = problem.key = problem.value = problem.d_output = Tensor::randn({1, 2, 64, 16}, 1);
  headway_test::Named results = headway_test::run(problem);
  const Tensor leaf = Tensor::randn({16, 16}, 2).set_requires_grad();
  sum(matmul(leaf, leaf)).backward();
  results.emplace_back("d_leaf", leaf.grad());
  return results;
}

bool is_right(const headway_test::Named& expected) {
  const headway_test::Named results = compute();
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!headway_test::same_bits(results[i].second, expected[i].second)) return false;
  }
  return true;
}

// Made before Headway has been used, so that it is destroyed after every static object of Headway's. Tensors of a
// static object are released later still.
struct AtExit {
  headway_test::Named expected;
  ~AtExit() {
    if (expected.empty()) return;
    if (!is_right(expected)) ::_exit(kWrong);
  }
};

AtExit at_exit;

void compute_in_threads() {
  static const auto* const expected = new headway_test::Named(compute());
  static std::atomic<int> begun{0};
  for (int i = 0; i < 2; ++i) {
    std::thread([] {
      while (true) {
        if (!is_right(*expected)) ::_exit(kWrong);
        ++begun;
      }
    }).detach();
  }
  while (begun.load() < 2) std::this_thread::yield();
}

// A copy of this program with a role ends before main().
[[maybe_unused]] const bool role_played = [] {
  const char* role = std::getenv(kRole);
  if (role == nullptr) return false;
  headway::set_num_threads(3);
  if (std::strcmp(role, "static") == 0) at_exit.expected = compute();
  if (std::strcmp(role, "thread") == 0) compute_in_threads();
  std::exit(kRight);
}();

int status_in_role(const char* role) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kRole, role, 1);
    ::execl("/proc/self/exe", "backend_exit_test", nullptr);
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int repeats() { return headway_test::reduced() ? 3 : 20; }

TEST(Exit, AStaticObjectComputesInItsDestructor) {
  for (int repeat = 0; repeat < repeats(); ++repeat) EXPECT_EQ(status_in_role("static"), kRight);
}

TEST(Exit, DetachedThreadsComputeMeanwhile) {
  for (int repeat = 0; repeat < repeats(); ++repeat) EXPECT_EQ(status_in_role("thread"), kRight);
}

}  // namespace

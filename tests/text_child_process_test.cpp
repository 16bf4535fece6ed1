// Work in a process of its own: what comes back, and what is said where it ends early.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <new>
#include <stdexcept>
#include <thread>

#include "headway/error.h"
#include "support/message_of.h"
#include "text/child_process.h"

namespace {

using headway::internal::run_in_child;
using headway_test::message_of;

std::string failure(const std::function<std::string()>& work) {
  return message_of([&] { run_in_child(work, "work"); });
}

TEST(ChildProcess, GivesBackBytes) {
  int changed = 1;
  const std::string large(1'000'000, '\0');
  EXPECT_EQ(run_in_child([&] { return changed = 2, large; }, "work"), large);
  EXPECT_EQ(changed, 1);  // of a copy
  EXPECT_EQ(run_in_child([] { return std::string(); }, "work"), "");
}

TEST(ChildProcess, ErrorsComeBack) {
  EXPECT_EQ(failure([]() -> std::string { throw headway::Error("vocab_size is 3"); }), "vocab_size is 3");
  EXPECT_EQ(failure([]() -> std::string { throw std::bad_alloc(); }), "work: there is not enough memory");
}

// What no caller could catch.
TEST(ChildProcess, EarlyEndsAreErrors) {
  const auto in_thread = [](auto thrown) {
    return [thrown]() -> std::string {
      std::thread([thrown] { throw thrown; }).join();
      return "never";
    };
  };
  EXPECT_EQ(failure(in_thread(std::bad_alloc())), "work: there is not enough memory");
  EXPECT_EQ(failure(in_thread(1)), "work: its process ended early; are there enough memory and threads?");
  const auto aborting = []() -> std::string {
    const rlimit no_core = {0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    std::signal(SIGABRT, SIG_DFL);
    ::raise(SIGABRT);
    return "never";
  };
  EXPECT_EQ(failure(aborting), "work: its process was ended by signal 6; is there enough memory?");
}

}  // namespace

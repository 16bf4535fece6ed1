// Work in a process of its own, which a test may kill.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <random>
#include <thread>

namespace headway_test {

// Starts the body in a process of its own. This process must have no threads before, so that a plain fork does.
template <typename Body>
pid_t start_process(const Body& body) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  try {
    body();
    ::_exit(0);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    ::_exit(1);
  }
}

// Waits for the process to end by itself for so long, then kills it. True when it ended.
inline bool ends_within(pid_t child, std::chrono::duration<double> time) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point moment = Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
  int status = 0;
  while (Clock::now() < moment) {
    if (::waitpid(child, &status, WNOHANG) == child) {
      EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
      return true;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  ::kill(child, SIGKILL);
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (!WIFEXITED(status)) return false;
  EXPECT_EQ(WEXITSTATUS(status), 0);  // it ended just before the signal came
  return true;
}

// The moments of the kills: from HEADWAY_TEST_SEED, else another for every run; printed, so that it can be repeated.
inline std::mt19937 kill_moments(double duration) {
  const char* given = std::getenv("HEADWAY_TEST_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::atoi(given)) : std::random_device()();
  std::cout << "seed " << seed << " (HEADWAY_TEST_SEED), an uninterrupted run takes " << duration << " s\n";
  return std::mt19937(seed);
}

}  // namespace headway_test

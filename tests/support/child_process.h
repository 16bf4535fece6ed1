// Processes that a test starts, and kills at a moment of its choice as kill -9 does.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <exception>
#include <iostream>
#include <thread>

namespace headway_test {

// Runs body() in a process of its own; an exception is printed and gives the exit code 1. The test must have no threads
// before, because a plain fork copies none.
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

// Waits until `moment` for the process to end by itself, and kills it then. True when it ended, which must be with the
// exit code 0.
inline bool ends_before(pid_t child, std::chrono::steady_clock::time_point moment) {
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && std::chrono::steady_clock::now() < moment) {
    ended = ::waitpid(child, &status, WNOHANG);
    if (ended == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (ended == 0) {
    ::kill(child, SIGKILL);
    ended = ::waitpid(child, &status, 0);
    if (ended == child && !WIFEXITED(status)) return false;  // else it ended just before the signal came
  }
  EXPECT_EQ(ended, child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return true;
}

}  // namespace headway_test

// The number of threads, set back at the end of a scope.
#pragma once

#include "headway/threads.h"

namespace headway_test {

class ThreadCount {
 public:
  ThreadCount() : before_(headway::num_threads()) {}
  explicit ThreadCount(int count) : before_(headway::num_threads()) { headway::set_num_threads(count); }
  ~ThreadCount() { headway::set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

}  // namespace headway_test

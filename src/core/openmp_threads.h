// PyTorch's threads: where PyTorch is in the process, work runs on the threads of its OpenMP runtime, so that no second
// pool takes the processors from them.
#pragma once

#include "core/parallel_job.h"

namespace headway::inline v0::internal {

// The OpenMP runtime that PyTorch calls. Its functions are looked up in the process: nothing of it is needed to build.
struct OpenMpThreads {
  int (*count)() = nullptr;  // how many threads PyTorch uses when the calling thread calls it
  int (*in_parallel)() = nullptr;
  void (*parallel)(void (*function)(void*), void* data, unsigned threads, unsigned flags) = nullptr;

  // Whether the calling thread is one of several that run a parallel region.
  bool inside_region() const { return in_parallel != nullptr && in_parallel() != 0; }

  // Runs the job on at most `workers` threads of the calling thread's team, the caller's included, and returns true.
  // False where the job belongs on our own threads: they were chosen, `limit`, the number of threads in use, is more
  // than the team has, or the process is a child after fork(), where the runtime would wait for threads of the parent.
  bool run(ParallelJob& job, int workers, int limit) const;
};

// Null where PyTorch is not in the process. A library that is loaded later is noticed.
const OpenMpThreads* openmp_threads();

}  // namespace headway::inline v0::internal

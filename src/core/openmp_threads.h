// PyTorch's threads: where PyTorch is in the process and its threads are awake, work runs on them, so that no second
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

  bool always = false;  // HEADWAY_THREADS asks for the team also while it sleeps

  // Runs the job on at most `workers` threads of the calling thread's team, the caller's included, and returns true.
  // False where the job belongs on our own threads:
  //   the team's threads sleep, or other programs have their processors. A region ends only when each of its threads
  //   has
  //     come, which then takes milliseconds; our own pool goes on without those that are late;
  //   our own threads were chosen, or `limit`, the number of threads in use, is more than the team has;
  //   the process is a child after fork(), where the runtime would wait for threads that only the parent has.
  bool run(ParallelJob& job, int workers, int limit) const;
};

// Null where PyTorch is not in the process. A library that is loaded later is noticed.
const OpenMpThreads* openmp_threads();

}  // namespace headway::inline v0::internal

// The number of threads that Headway uses, and what the threads of a program may share.
//
// Any number of threads may call Headway at the same time. They may share a tensor that none of them changes in place;
// leaves whose gradients they all accumulate by backward(), read by grad() or replace by set_grad(): no part of a sum
// is lost, only the order of the additions, and so the rounding, is that of their arrival; a module that none of them
// changes, a tokenizer, and every class whose comment says so. Several threads may call backward() through one record
// where all retain it; of those that do not, one does and the others get an Error. On a GPU each thread has its own
// queue: a thread calls synchronize() before another one uses what it computed, and threads do not share leaves there.
// A KeyValueCache, an Optimizer and everything that is changed in place belong to one thread at a time.
//
// In a process that has loaded PyTorch (libtorch_cpu) work runs on the threads of PyTorch's OpenMP runtime while they
// are awake, and on Headway's own while they sleep, so that the two do not take processors from each other. The
// environment variable HEADWAY_THREADS changes that: "own" for Headway's threads alone, "openmp" for those of the
// runtime always, also without PyTorch where the program is linked with one. Another value is an Error. Results have
// the same bits on both.
//
// After fork() a child may compute: it starts threads of its own. What another thread was changing at that moment is
// lost to the child. Static destructors and detached threads may compute to the end of the process.
#pragma once

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Sets the number of threads, the caller's included; at least 1. Results are bit-identical for any number.
HEADWAY_API void set_num_threads(int count);

// The number in use: the one that was set, else HEADWAY_NUM_THREADS of the environment, else PyTorch's
// (torch.set_num_threads()) where it is in the process, else one per processor.
HEADWAY_API int num_threads();

}  // namespace v0
}  // namespace headway

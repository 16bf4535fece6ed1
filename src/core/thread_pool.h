// Work on several threads: those of our own pool, or PyTorch's (core/openmp_threads.h). Their number is set by
// headway/threads.h.
#pragma once

#include <cstdint>

#include "base/function_ref.h"
#include "base/internal_api.h"

namespace headway::inline v0::internal {

// Runs body(task, worker) for every task in [0, task_count), and returns when all have ended.
//
// Tasks start in ascending order, each one claimed by a thread that runs it at once: task t may therefore wait for
// progress of any task below t. `worker` is in [0, min(worker_limit(), task_count)), and no two tasks that run at the
// same time in one call share it; the caller is worker 0. All tasks run on the calling thread, as worker 0, where the
// call is nested, comes from a parallel region of PyTorch's, or finds our pool busy with another caller's work; of
// PyTorch's threads every caller has its own.
//
// The first exception that leaves the body is rethrown here, and tasks not yet started are left out. A task that others
// may wait for ends their waiting before it throws (TicketLock::cancel()).
HEADWAY_INTERNAL_API void parallel_for(std::int64_t task_count, FunctionRef<void(std::int64_t task, int worker)> body);

// The number of workers that parallel_for uses at most: num_threads().
int worker_limit();

}  // namespace headway::inline v0::internal

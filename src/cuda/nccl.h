// Messages between GPUs by NCCL, which is opened on first use: Headway needs neither its headers nor its library to be
// built.
#pragma once

#include <memory>
#include <string>

#include "headway/transport.h"

namespace headway::inline v0::internal::cuda {

std::string new_nccl_id();

// The calling thread's current GPU, `device`, as a rank. Returns when all ranks have called it. Messages go through a
// stream of their own, between what the thread has enqueued before they start and what it enqueues after wait().
std::shared_ptr<Transport> open_nccl(int device, const std::string& id, int rank, int size);

}  // namespace headway::inline v0::internal::cuda

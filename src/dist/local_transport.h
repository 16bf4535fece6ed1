// Threads of one process as ranks.
#pragma once

#include <memory>
#include <vector>

#include "headway/transport.h"

namespace headway::inline v0::internal {

// Entry r is rank r's.
std::vector<std::shared_ptr<Transport>> local_transports(int size);

}  // namespace headway::inline v0::internal

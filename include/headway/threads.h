// The number of threads that Headway uses.
#pragma once

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Sets the number of threads, the caller's included; at least 1. Results are bit-identical for any number.
HEADWAY_API void set_num_threads(int count);

// The number in use: the one that was set, else HEADWAY_NUM_THREADS of the environment, else one per processor.
HEADWAY_API int num_threads();

}  // namespace v0
}  // namespace headway

// How many threads Headway computes with.
#pragma once

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Sets the number of threads, the caller's included; at least 1. Results do not depend on it, bit for bit.
HEADWAY_API void set_num_threads(int count);

// The number in use: what was set, else the environment's HEADWAY_NUM_THREADS, else the processor's count.
HEADWAY_API int num_threads();

}  // namespace v0
}  // namespace headway

// Headway on every case of the tests' list, which has all options: forward and backward, without a peer.
#pragma once

#include "flags.h"

namespace bench {

// Measures the cases that --filter leaves and prints their times; returns the program's exit status.
int measure_list(const Flags& flags);

}  // namespace bench

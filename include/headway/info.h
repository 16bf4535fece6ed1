// What this build is and what it runs on.
#pragma once

#include <string>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// "0.2.0": that of the library in use; headway/version.h has that of the headers.
HEADWAY_API std::string version();

// The instruction set in use: "sse4", "avx2", "avx512", "avx512_bf16" or "neon".
// The environment's HEADWAY_ISA forces one; a name that is unknown or that the machine lacks is an error.
HEADWAY_API std::string instruction_set();

// All instruction sets that this build has and this machine runs, the best one last.
HEADWAY_API std::vector<std::string> instruction_sets();

}  // namespace v0
}  // namespace headway

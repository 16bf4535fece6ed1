// The version of the library and the instruction sets that it uses.
#pragma once

#include <string>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// The version of the library in use, such as "0.2.0"; headway/version.h has that of the headers.
HEADWAY_API std::string version();

// The instruction set in use: "sse4", "avx2", "avx512", "avx512_vnni", "avx512_bf16" or "neon".
// The environment variable HEADWAY_ISA selects one; an unknown or unsupported name is an Error.
HEADWAY_API std::string instruction_set();

// All instruction sets that this build contains and this machine supports, the best one last.
HEADWAY_API std::vector<std::string> instruction_sets();

}  // namespace v0
}  // namespace headway

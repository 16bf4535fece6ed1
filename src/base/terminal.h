// Whether a person looks at the output, and how wide their terminal is.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace headway::inline v0::internal {

bool is_terminal(int descriptor);
// True for std::cout, std::cerr and std::clog where a person looks at them.
bool is_terminal(const std::ostream& stream);

// Columns of the terminal; `otherwise` where there is none.
std::int64_t terminal_width(int descriptor, std::int64_t otherwise);
std::int64_t terminal_width(const std::ostream& stream, std::int64_t otherwise);

}  // namespace headway::inline v0::internal

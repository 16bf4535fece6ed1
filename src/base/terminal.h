// Whether a stream is a terminal, and how wide the terminal is.
#pragma once

#include <cstdint>
#include <iosfwd>

namespace headway::inline v0::internal {

bool is_terminal(int descriptor);
// True for std::cout, std::cerr and std::clog where they are a terminal.
bool is_terminal(const std::ostream& stream);

// Columns of the terminal; `otherwise` without a terminal.
std::int64_t terminal_width(int descriptor, std::int64_t otherwise);
std::int64_t terminal_width(const std::ostream& stream, std::int64_t otherwise);

}  // namespace headway::inline v0::internal

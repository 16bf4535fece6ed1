// Whether a stream is a terminal, how wide the terminal is, and texts that it shows and never obeys.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

bool is_terminal(int descriptor);
// True for std::cout, std::cerr and std::clog where they are a terminal.
bool is_terminal(const std::ostream& stream);

// Columns of the terminal; `otherwise` without a terminal.
std::int64_t terminal_width(int descriptor, std::int64_t otherwise);
std::int64_t terminal_width(const std::ostream& stream, std::int64_t otherwise);

// C0 and C1 controls and DEL, which a terminal obeys: U+001B and U+009B begin its commands.
bool is_control_character(char32_t character);
// Marks that turn the direction of the writing around them.
bool is_direction_mark(char32_t character);

// A text that may come from anyone with its control characters written out, as \x1b or \u009b; tabs and line ends stay.
// A byte that is not UTF-8 becomes \xff.
std::string visible_text(std::string_view text);
// The same of a token or a name: tabs, line ends and direction marks are written out as well.
std::string visible_token(std::string_view token);

}  // namespace headway::inline v0::internal

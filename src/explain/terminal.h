// Pieces of a terminal drawing: padded cells, coloured blocks, shades.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "explain/colors.h"

namespace headway::inline v0::internal {

// The text with spaces in front or behind so that it takes `width` columns.
std::string pad_left(std::string_view text, std::int64_t width);
std::string pad_right(std::string_view text, std::int64_t width);

// `width` columns of one map cell of the given shade, 0 to 1: a block of 24-bit colour, or a shade character.
std::string map_cell(float shade, std::int64_t width, bool color);
// A bar that fills `part` (0 to 1) of `width` columns, in eighths of a column.
std::string bar(float part, std::int64_t width, bool color);
// Text in grey where there is colour.
std::string grey(std::string_view text, bool color);
std::string bold(std::string_view text, bool color);

}  // namespace headway::inline v0::internal

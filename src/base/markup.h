// Text inside HTML and SVG.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// The text with & < > " and ' escaped: for the content of elements and for attributes in quotes.
std::string escape_markup(std::string_view text);

}  // namespace headway::inline v0::internal

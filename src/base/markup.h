// Text inside HTML and SVG, and what a page says about itself.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// The text with & < > " and ' escaped: for the content of elements and for attributes in quotes.
std::string escape_markup(std::string_view text);

// A source of a Content-Security-Policy that allows the one inline script or style sheet with this text, and no other.
std::string policy_hash(std::string_view text);

}  // namespace headway::inline v0::internal

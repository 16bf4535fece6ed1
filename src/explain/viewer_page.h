// The attention page of viewer/, joined and embedded by cmake/embed.cmake when the library is built.
#pragma once

#include <string_view>

namespace headway::inline v0::internal {

// The whole page with its style and scripts; "<!--title-->" and "<!--record-->" are replaced by a record's text and
// data.
std::string_view viewer_page();

}  // namespace headway::inline v0::internal

// Pieces of an SVG file: numbers, attributes, colours, texts.
#pragma once

#include <string>
#include <string_view>

#include "explain/colors.h"

namespace headway::inline v0::internal {

// A number in at most six digits.
std::string svg_number(double value);
// ' name="value"'.
std::string svg_attribute(const char* name, double value);
std::string svg_attribute(const char* name, std::string_view value);
// "#rrggbb".
std::string svg_color(Color color);
// ' x="…" y="…" width="…" height="…"'.
std::string svg_box(double x, double y, double width, double height);
// A text at a place; `more` are further attributes. The text is escaped here.
std::string svg_text(double x, double y, std::string_view text, std::string_view more = {});

}  // namespace headway::inline v0::internal

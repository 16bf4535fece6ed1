#include "explain/svg_parts.h"

#include <cstdio>

#include "base/markup.h"

namespace headway::inline v0::internal {

std::string svg_number(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

std::string svg_attribute(const char* name, double value) { return svg_attribute(name, svg_number(value)); }

std::string svg_attribute(const char* name, std::string_view value) {
  return std::string(" ") + name + "=\"" + std::string(value) + "\"";
}

std::string svg_color(Color color) {
  char text[8];
  std::snprintf(text, sizeof(text), "#%02x%02x%02x", color.red, color.green, color.blue);
  return text;
}

std::string svg_box(double x, double y, double width, double height) {
  return svg_attribute("x", x) + svg_attribute("y", y) + svg_attribute("width", width) +
         svg_attribute("height", height);
}

std::string svg_text(double x, double y, std::string_view text, std::string_view more) {
  return "<text" + svg_attribute("x", x) + svg_attribute("y", y) + std::string(more) + ">" + escape_markup(text) +
         "</text>";
}

}  // namespace headway::inline v0::internal

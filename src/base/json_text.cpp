#include "base/json_text.h"

#include <cmath>
#include <cstdio>

#include "base/number_text.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

void append_escape(std::string& quoted, char32_t character) {
  char escape[16];
  std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(character));
  quoted += escape;
}

std::string quoted_json(std::string_view text, bool in_script) {
  std::string quoted = "\"";
  quoted.reserve(text.size() + 2);
  while (!text.empty()) {
    const char32_t character = next_character(text);
    if (character == '"' || character == '\\') {
      quoted += {'\\', static_cast<char>(character)};
    } else if (character < 0x20 || (in_script && (character == '<' || character == 0x2028 || character == 0x2029))) {
      append_escape(quoted, character);
    } else {
      append_utf8(quoted, character);
    }
  }
  return quoted + '"';
}

}  // namespace

std::string json_string(std::string_view text) { return quoted_json(text, false); }
std::string json_script_string(std::string_view text) { return quoted_json(text, true); }

std::string json_number(double value) { return std::isfinite(value) ? number_text(value) : "null"; }

}  // namespace headway::inline v0::internal

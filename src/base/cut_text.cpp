#include "base/cut_text.h"

namespace headway::inline v0::internal {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

bool ends_with_stop(std::string_view text) {
  for (const std::string_view stop : {".", "!", "?", "…", "。", "！", "？"}) {
    if (text.ends_with(stop)) return true;
  }
  return false;
}

// The last end of a character up to `place`; a run of bytes that is not UTF-8 is cut anywhere.
std::size_t character_end(std::string_view text, std::size_t place) {
  for (std::size_t back = 0; back < 4 && back < place; ++back) {
    if ((static_cast<unsigned char>(text[place - back]) & 0xC0) != 0x80) return place - back;
  }
  return place;
}

}  // namespace

std::size_t cut_place(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text.size();
  std::size_t word = 0;
  for (std::size_t place = most; place > most / 2; --place) {
    if (!is_space(text[place]) || is_space(text[place - 1])) continue;
    if (ends_with_stop(text.substr(0, place))) return place;
    if (word == 0) word = place;
  }
  return word > 0 ? word : character_end(text, most);
}

}  // namespace headway::inline v0::internal

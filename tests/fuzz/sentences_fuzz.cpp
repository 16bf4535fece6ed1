// Feeds bytes to what decodes UTF-8 and splits texts. Parts are in order and inside the text, repaired text is UTF-8,
// and what a terminal gets has no control characters.
#include <string>
#include <string_view>
#include <vector>

#include "base/terminal.h"
#include "base/utf8.h"
#include "input_file.h"
#include "text/sentences.h"

namespace {

using headway_fuzz::require;
namespace internal = headway::internal;

// Parts that follow one another in a text, with nothing but white space between them where `spaces` says so.
void require_parts(std::string_view text, const std::vector<std::string_view>& parts, bool spaces) {
  std::size_t at = 0;
  for (const std::string_view part : parts) {
    require(part.data() >= text.data() + at && part.data() + part.size() <= text.data() + text.size());
    const auto begin = static_cast<std::size_t>(part.data() - text.data());
    if (spaces) require(internal::is_blank(text.substr(at, begin - at)));
    at = begin + part.size();
  }
  if (spaces) require(internal::is_blank(text.substr(at)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  const std::string text = internal::repaired_utf8(bytes);
  require(internal::is_utf8(text) && (text == bytes) == internal::is_utf8(bytes));
  require(internal::decode_utf8(bytes) == internal::decode_utf8(text));
  require(internal::count_characters(text) == static_cast<std::int64_t>(internal::decode_utf8(text).size()));
  require(internal::is_utf8(internal::shortened(text, size / 2)));
  for (const char32_t c : internal::decode_utf8(internal::visible_token(bytes))) {
    require(!internal::is_control_character(c) && !internal::is_direction_mark(c));
  }
  const std::vector<std::string_view> lines = internal::split_lines(text);
  require_parts(text, lines, false);
  for (const std::string_view line : lines) {
    const std::vector<std::string_view> sentences = internal::split_sentences(line);
    require_parts(line, sentences, true);
    for (const std::string_view sentence : sentences) require(internal::is_utf8(sentence));
    const auto fits = [](std::string_view part) { return internal::count_characters(part) <= 7; };
    for (const std::string_view part : internal::split_to_fit(line, fits)) {
      require(internal::is_utf8(part) && fits(part));
    }
  }
  return 0;
}

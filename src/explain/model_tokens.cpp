#include "explain/model_tokens.h"

#include <string_view>

#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::string_view kBeginsWord = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kByteLevelSpace = "\xC4\xA0";  // U+0120, a space in the alphabet of byte-level BPE
constexpr std::string_view kSpaces = " \t\r\n";

bool is_space_byte(char byte) { return kSpaces.find(byte) != std::string_view::npos; }

// The text without spaces around it, and with a mark where it begins a word.
std::string marked(std::string_view text, bool begins) {
  const std::size_t first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return std::string(kBeginsWord);
  const std::size_t last = text.find_last_not_of(kSpaces);
  return (begins || first > 0 ? std::string(kBeginsWord) : std::string()) +
         std::string(text.substr(first, last + 1 - first));
}

}  // namespace

std::vector<std::string> shown_tokens(const TextTokenizer& tokenizer, const TokenizedText& tokens,
                                      const std::vector<std::string>& texts) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
    const std::int64_t of = tokens.sequence[i];
    const auto [begin, end] = tokens.offsets[i];
    if (of < 0 || tokenizer.is_special(tokens.ids[i]) || begin >= end) {
      shown.push_back(of < 0 || begin < end ? tokenizer.token(tokens.ids[i]) : shown_token(tokenizer, tokens.ids[i]));
      continue;
    }
    const std::string& text = texts[static_cast<std::size_t>(of)];
    const auto from = static_cast<std::size_t>(begin);
    const bool begins = from == 0 || is_space_byte(text[from - 1]);
    shown.push_back(marked(std::string_view(text).substr(from, static_cast<std::size_t>(end - begin)), begins));
  }
  return shown;
}

std::string shown_token(const TextTokenizer& tokenizer, std::int64_t id) {
  if (id >= tokenizer.size()) return "<" + std::to_string(id) + ">";  // a row of the model that no token uses
  const std::string token = tokenizer.token(id);
  if (tokenizer.is_special(id) || token.starts_with(kBeginsWord)) return token;
  if (token.size() > 2 && token.starts_with("##")) return token.substr(2);
  const std::string text = tokenizer.decode({id}, false);
  return text.empty() ? token : marked(text, token.starts_with(kByteLevelSpace));
}

}  // namespace headway::inline v0::internal

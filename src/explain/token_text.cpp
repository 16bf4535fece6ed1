// Tokens as people read them: words without SentencePiece's marks, and text that is safe in pages and terminals.
#include "explain/token_text.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "base/terminal.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581, the mark of a word's beginning
constexpr char32_t kJoiner = 0x200D;

// Control characters, and marks that would turn the direction of the text around them.
bool is_unsafe(char32_t code) {
  return is_control_character(code) || is_direction_mark(code) || code == 0x2028 || code == 0x2029 || code == 0xFFFE ||
         code == 0xFFFF;
}

struct Range {
  char32_t first, last;
};
template <std::size_t count>
bool is_in(const Range (&ranges)[count], char32_t code) {
  return std::any_of(ranges, ranges + count, [&](Range range) { return code >= range.first && code <= range.last; });
}

// Marks that combine with the character before them, joiners and variation selectors.
bool is_combining(char32_t code) {
  static constexpr Range kRanges[] = {
      {0x0300, 0x036F}, {0x0483, 0x0489}, {0x0591, 0x05BD}, {0x05BF, 0x05C7}, {0x0610, 0x061A},   {0x064B, 0x065F},
      {0x0670, 0x0670}, {0x06D6, 0x06DC}, {0x093C, 0x093C}, {0x0941, 0x0948}, {0x094D, 0x094D},   {0x0E31, 0x0E31},
      {0x0E34, 0x0E3A}, {0x0E47, 0x0E4E}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF}, {0x200B, 0x200F},   {0x2060, 0x2064},
      {0x20D0, 0x20FF}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F}, {0xFEFF, 0xFEFF}, {0x1F3FB, 0x1F3FF}, {0xE0100, 0xE01EF}};
  return is_in(kRanges, code);
}

// East Asian characters and emoji, which take two columns.
bool is_wide(char32_t code) {
  static constexpr Range kRanges[] = {{0x1100, 0x115F},   {0x231A, 0x231B},  {0x2E80, 0x303E},   {0x3041, 0xA4CF},
                                      {0xA960, 0xA97F},   {0xAC00, 0xD7A3},  {0xF900, 0xFAFF},   {0xFE30, 0xFE6F},
                                      {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},  {0x1F300, 0x1F64F}, {0x1F680, 0x1F6FF},
                                      {0x1F900, 0x1FAFF}, {0x20000, 0x3FFFD}};
  return is_in(kRanges, code);
}

bool is_special(std::string_view token) {
  const auto framed = [&](std::string_view open, std::string_view close) {
    if (token.size() <= open.size() + close.size() || !token.starts_with(open) || !token.ends_with(close)) return false;
    const std::string_view inside = token.substr(open.size(), token.size() - open.size() - close.size());
    return std::all_of(inside.begin(), inside.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '_' || c == '-' || c == '|';
    });
  };
  const bool bracketed = token.size() > 2 && token.front() == '[' && token.back() == ']' &&
                         std::all_of(token.begin() + 1, token.end() - 1, [](char c) {
                           return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
                         });  // [CLS], [SEP], [MASK]
  return bracketed || framed("<", ">") || framed(">>", "<<");
}

bool is_punctuation(const TokenText& token) {
  return !token.text.empty() &&
         std::all_of(token.text.begin(), token.text.end(), [](unsigned char c) { return c < 0x80 && std::ispunct(c); });
}

std::string lower_ascii(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const char32_t code = next_character(text);
    append_utf8(result, is_unsafe(code) ? kReplacementCharacter : code);
  }
  return result;
}

TokenText token_text(std::string_view token) {
  TokenText result;
  std::string_view rest = token;
  while (rest.starts_with(kWordMark)) {
    rest.remove_prefix(kWordMark.size());
    result.starts_word = true;
  }
  result.special = is_special(token);
  constexpr std::string_view kByte = "<0x";  // <0xE2>: a byte of a character that has no piece
  const bool byte = token.size() == 6 && token.starts_with(kByte) && token.ends_with('>');
  result.text = printable(byte ? token.substr(kByte.size(), 2) : rest.empty() ? token : rest);
  return result;
}

std::int64_t display_width(std::string_view text) {
  std::int64_t width = 0;
  char32_t last = 0;
  while (!text.empty()) {
    const char32_t code = next_character(text);
    width += is_combining(code) || last == kJoiner ? 0 : is_wide(code) ? 2 : 1;
    last = code;
  }
  return width;
}

std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> result;
  char32_t last = 0;
  while (!text.empty()) {
    const char32_t code = next_character(text);
    if (result.empty() || !(is_combining(code) || last == kJoiner)) result.emplace_back();
    append_utf8(result.back(), code);
    last = code;
  }
  return result;
}

std::string cut_to_width(std::string_view text, std::int64_t width) {
  if (display_width(text) <= width) return std::string(text);
  std::string result;
  std::int64_t used = 0;
  for (const std::string& character : characters(text)) {
    used += display_width(character);
    if (used > width - 1) break;
    result += character;
  }
  return width > 0 ? result + "…" : result;
}

std::vector<TokenSpan> find_word(const std::vector<std::string>& tokens, const std::string& word) {
  std::vector<TokenText> shown;
  shown.reserve(tokens.size());
  for (const std::string& token : tokens) shown.push_back(token_text(token));
  const auto count = static_cast<std::int64_t>(tokens.size());
  const auto begins = [&](std::int64_t i) {  // whether a new word may begin at i
    if (i == 0 || i >= count) return true;
    const TokenText& token = shown[static_cast<std::size_t>(i)];
    return token.starts_word || token.special || is_punctuation(token) ||
           shown[static_cast<std::size_t>(i - 1)].special;
  };
  const std::string wanted = printable(word);
  std::vector<TokenSpan> kinds[4];  // whole words, parts of words, and both with the case ignored
  for (std::int64_t i = 0; i < count; ++i) {
    if (!word.empty() && tokens[static_cast<std::size_t>(i)] == word &&
        shown[static_cast<std::size_t>(i)].starts_word) {
      kinds[0].push_back({i, 1});
      continue;
    }
    std::string joined;
    for (std::int64_t end = i; end < count && joined.size() < wanted.size(); ++end) {
      if (end > i && shown[static_cast<std::size_t>(end)].starts_word) break;
      joined += shown[static_cast<std::size_t>(end)].text;
      const int part = begins(i) && begins(end + 1) ? 0 : 1;
      if (joined == wanted) kinds[part].push_back({i, end + 1 - i});
      if (lower_ascii(joined) == lower_ascii(wanted)) kinds[2 + part].push_back({i, end + 1 - i});
    }
  }
  for (std::vector<TokenSpan>& kind : kinds) {
    if (!kind.empty()) return std::move(kind);
  }
  return {};
}

}  // namespace headway::inline v0::internal

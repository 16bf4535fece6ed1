#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

// How a character of several bytes may begin: its length, and what its second byte may be.
struct Lead {
  int length = 0;  // 0: no character begins so
  unsigned char second_from = 0x80;
  unsigned char second_to = 0xBF;
};

Lead lead_of(unsigned char first) {
  if (first < 0x80) return {1};
  if (first < 0xC2) return {};
  if (first < 0xE0) return {2};
  if (first == 0xE0) return {3, 0xA0, 0xBF};  // no overlong forms
  if (first == 0xED) return {3, 0x80, 0x9F};  // no surrogates
  if (first < 0xF0) return {3};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4};
  if (first == 0xF4) return {4, 0x80, 0x8F};  // nothing past U+10FFFF
  return {};
}

}  // namespace

char32_t next_character(std::string_view& text, bool& valid) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const Lead lead = lead_of(byte(0));
  if (lead.length == 1) {
    const char32_t ascii = byte(0);
    text.remove_prefix(1);
    return ascii;
  }
  char32_t character = byte(0) & (0x7F >> lead.length);
  std::size_t used = 1;
  for (; used < static_cast<std::size_t>(lead.length) && used < text.size(); ++used) {
    const unsigned char from = used == 1 ? lead.second_from : 0x80, to = used == 1 ? lead.second_to : 0xBF;
    if (byte(used) < from || byte(used) > to) break;
    character = character << 6 | (byte(used) & 0x3F);
  }
  text.remove_prefix(used);
  if (used == static_cast<std::size_t>(lead.length)) return character;
  valid = false;
  return kReplacementCharacter;
}

char32_t next_character(std::string_view& text) {
  bool ignored = true;
  return next_character(text, ignored);
}

void append_utf8(std::string& text, char32_t character) {
  const auto put = [&](char32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto tail = [&](unsigned shift) { put(0x80U | (character >> shift & 0x3FU)); };
  if (character < 0x80) return put(character);
  if (character < 0x800) {
    put(0xC0U | character >> 6U);
  } else if (character < 0x10000) {
    put(0xE0U | character >> 12U);
    tail(6);
  } else {
    put(0xF0U | character >> 18U);
    tail(12);
    tail(6);
  }
  tail(0);
}

bool is_utf8(std::string_view text) {
  bool valid = true;
  while (!text.empty() && valid) next_character(text, valid);
  return valid;
}

std::string repaired_utf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    bool valid = true;
    next_character(text, valid);
    if (valid) {
      repaired += before.substr(0, before.size() - text.size());
    } else {
      repaired += "\xEF\xBF\xBD";
    }
  }
  return repaired;
}

std::u32string decode_utf8(std::string_view text) {
  std::u32string characters;
  characters.reserve(text.size());
  bool valid = true;
  while (!text.empty()) characters += next_character(text, valid);
  return characters;
}

std::string shortened(std::string_view text, std::size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "...";
}

std::int64_t count_characters(std::string_view text) {
  std::int64_t count = 0;
  bool valid = true;
  for (; !text.empty(); ++count) next_character(text, valid);
  return count;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_blank(std::string_view text) {
  bool valid = true;
  while (!text.empty()) {
    if (!is_white_space(next_character(text, valid))) return false;
  }
  return true;
}

}  // namespace headway::inline v0::internal

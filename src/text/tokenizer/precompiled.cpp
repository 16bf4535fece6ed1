// The normalizer of tokenizer.json that has SentencePiece's compiled character map.
#include <array>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/character_map.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/normalizer.h"

namespace headway::inline v0::internal {
namespace {

std::string decoded_base64(std::string_view text, const std::string& about) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int, 256> values = {};
  values.fill(-1);
  for (std::size_t n = 0; n < kDigits.size(); ++n) {
    values[static_cast<unsigned char>(kDigits[n])] = static_cast<int>(n);
  }
  while (text.ends_with('=')) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = values[static_cast<unsigned char>(c)];
    check(value >= 0, about, ": precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return bytes;
}

class PrecompiledMap : public TextNormalizer {
 public:
  PrecompiledMap(const std::string& bytes, const std::string& about) : map_(bytes, about) {}

  void apply(NormalizedText& text) const override {
    if (is_unchanged_ascii(text.text)) return;
    std::vector<CharacterChange> changes;
    changes.reserve(text.text.size());
    bool modified = false;
    for (std::size_t at = 0; at < text.text.size();) {
      const std::size_t end = grapheme_end(text.text, at);
      modified |= apply_grapheme(std::string_view(text.text).substr(at, end - at), changes);
      at = end;
    }
    if (modified) apply_changes(text, changes);
  }

 private:
  bool is_unchanged_ascii(std::string_view text) const {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x80 || byte == '\r' || map_.single(byte)) return false;
    }
    return true;
  }

  static std::size_t grapheme_end(std::string_view text, std::size_t at) {
    int length = 0;
    char32_t left = character_at(text.data() + at, length);
    at += static_cast<std::size_t>(length);
    std::int32_t state = 0;
    while (at < text.size()) {
      const char32_t right = character_at(text.data() + at, length);
      const bool plain = left < 0x80 && right < 0x80 && left != '\r';
      if (plain || is_grapheme_break(left, right, state)) break;
      left = right;
      at += static_cast<std::size_t>(length);
    }
    return at;
  }

  bool apply_grapheme(std::string_view grapheme, std::vector<CharacterChange>& changes) const {
    constexpr std::size_t kLongest = 6;
    if (grapheme.size() == 1 && static_cast<signed char>(grapheme[0]) >= 0) {
      const auto& found = map_.single(static_cast<unsigned char>(grapheme[0]));
      if (found) replace(grapheme, *found, changes);
      if (!found) changes.push_back({static_cast<unsigned char>(grapheme[0]), 0});
      return found.has_value();
    }
    if (grapheme.size() < kLongest) {
      if (const auto found = map_.find_shortest(grapheme)) {
        replace(grapheme, *found, changes);
        return true;
      }
    }
    bool modified = false;
    for_each_character(grapheme, [&](char32_t c, std::size_t begin, std::size_t end) {
      const std::string_view part = grapheme.substr(begin, end - begin);
      if (const auto found = map_.find_shortest(part)) {
        modified = true;
        replace(part, *found, changes);
      } else {
        changes.push_back({c, 0});
      }
    });
    return modified;
  }

  static void replace(std::string_view old, std::string_view made, std::vector<CharacterChange>& changes) {
    std::int32_t difference = 0;
    for_each_character(made, [&](char32_t c, std::size_t, std::size_t) {
      changes.push_back({c, 0});
      ++difference;
    });
    difference -= static_cast<std::int32_t>(count_characters(old));
    for (std::int32_t n = 0; n < difference; ++n) changes[changes.size() - 1 - static_cast<std::size_t>(n)].change = 1;
    if (difference < 0 && !changes.empty()) changes.back().change += difference;
  }

  CharacterMap map_;
};

}  // namespace

std::unique_ptr<TextNormalizer> read_precompiled(const Json& json, const std::string& about) {
  return std::make_unique<PrecompiledMap>(decoded_base64(string_field(json, "precompiled_charsmap", about), about),
                                          about);
}

}  // namespace headway::inline v0::internal

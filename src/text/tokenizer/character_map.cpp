#include "text/tokenizer/character_map.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

// A unit: a label in the low byte, a flag for a node with a text, and the offset of its children.
std::size_t offset_of(std::uint32_t unit) { return std::size_t{unit} >> 10 << ((unit & (1u << 9)) >> 6); }
bool has_text_flag(std::uint32_t unit) { return (unit >> 8 & 1) != 0; }

std::uint32_t little_endian(const char* bytes) {
  std::uint32_t number = 0;
  for (std::size_t n = 0; n < 4; ++n) number |= std::uint32_t{static_cast<unsigned char>(bytes[n])} << 8 * n;
  return number;
}

}  // namespace

CharacterMap::CharacterMap(std::string_view bytes, const std::string& about) {
  check(bytes.size() >= 4, about, ": precompiled_charsmap has ", bytes.size(), " bytes, expected at least 4");
  const std::uint32_t size = little_endian(bytes.data());
  check(size % 4 == 0 && size <= bytes.size() - 4, about, ": precompiled_charsmap has a trie of ", size,
        " bytes, expected at most ", bytes.size() - 4, " and a multiple of 4");
  units_.resize(size / 4);
  for (std::size_t n = 0; n < units_.size(); ++n) units_[n] = little_endian(bytes.data() + 4 + 4 * n);
  texts_ = bytes.substr(4 + size);
  check(is_utf8(texts_), about, ": precompiled_charsmap maps to what is not UTF-8");
  check(texts_.empty() || texts_.back() == '\0', about, ": the last text of precompiled_charsmap has no end");
  for (std::size_t begin = 0; begin < texts_.size();) {
    const std::size_t end = texts_.find('\0', begin);
    check(end - begin <= kLongestText, about, ": a text of precompiled_charsmap has ", end - begin,
          " bytes, expected at most ", kLongestText);
    begin = end + 1;
  }
  for (std::size_t c = 0; c < single_.size(); ++c) {
    const char one = static_cast<char>(c);
    single_[c] = find_shortest({&one, 1});
    is_single_[c] = true;
    std::size_t first = root();
    bool has_text = false;
    if (c == 0 || units_.empty() || !step(first, static_cast<unsigned char>(c), has_text)) continue;
    for (unsigned next = 1; next < 128; ++next) {
      std::size_t second = first;
      if (step(second, static_cast<unsigned char>(next), has_text)) is_single_[c] = false;
    }
  }
}

std::size_t CharacterMap::root() const { return units_.empty() ? 0 : offset_of(units_[0]); }

bool CharacterMap::step(std::size_t& node, unsigned char byte, bool& has_text) const {
  const std::size_t at = node ^ byte;
  if (at >= units_.size()) return false;
  const std::uint32_t unit = units_[at];
  if ((unit & (1u << 31 | 0xFF)) != byte) return false;
  node = at ^ offset_of(unit);
  has_text = has_text_flag(unit) && node < units_.size();
  return true;
}

std::string_view CharacterMap::text_of(std::size_t node) const {
  const std::size_t begin = units_[node] & ((1u << 31) - 1);
  if (begin >= texts_.size() || (static_cast<unsigned char>(texts_[begin]) & 0xC0) == 0x80) return {};
  return texts_.c_str() + begin;
}

std::optional<std::string_view> CharacterMap::find_shortest(std::string_view key) const {
  if (units_.empty()) return {};
  std::size_t node = root();
  for (const char c : key.substr(0, kLongestRule)) {
    bool has_text = false;
    if (c == 0 || !step(node, static_cast<unsigned char>(c), has_text)) return {};
    if (has_text) return text_of(node);
  }
  return {};
}

CharacterMap::Rule CharacterMap::find_longest(std::string_view text) const {
  constexpr int kMostRules = 32;  // more than that on one path are never looked at
  Rule longest;
  if (units_.empty()) return longest;
  std::size_t node = root();
  int rules = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    check(at < kLongestRule, "a rule of precompiled_charsmap has more than ", kLongestRule, " bytes");
    bool has_text = false;
    if (text[at] == 0 || !step(node, static_cast<unsigned char>(text[at]), has_text)) break;
    if (!has_text) continue;
    longest = {at + 1, text_of(node)};
    if (++rules == kMostRules) break;
  }
  return longest;
}

}  // namespace headway::inline v0::internal

// SentencePiece's compiled character map: rules from byte strings to texts, as a double-array trie.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// The bytes may come from anyone: every step is checked against the units that are there, every text against the bytes.
class CharacterMap {
 public:
  struct Rule {
    std::size_t length = 0;  // bytes that it replaces; 0: there is no rule
    std::string_view text = {};
  };
  // Normalisation forms have rules of up to 18 bytes, and texts of up to 33.
  static constexpr std::size_t kLongestRule = 256;
  static constexpr std::size_t kLongestText = 256;

  CharacterMap() = default;
  // Errors begin with `about`.
  CharacterMap(std::string_view bytes, const std::string& about);
  CharacterMap(const CharacterMap&) = delete;  // single_ refers to texts_
  CharacterMap& operator=(const CharacterMap&) = delete;

  bool empty() const { return units_.empty(); }
  // The text of the shortest rule that `key` begins with; zero bytes end the search.
  std::optional<std::string_view> find_shortest(std::string_view key) const;
  // The longest rule that `text` begins with.
  Rule find_longest(std::string_view text) const;
  // Whether an ASCII character before another one is replaced by single() alone: no rule has both.
  bool is_single(unsigned char c) const { return is_single_[c]; }
  // The text of the rule of one ASCII character.
  const std::optional<std::string_view>& single(unsigned char c) const { return single_[c]; }

 private:
  // Steps from a node, which is the offset of its children, by a byte; false where no unit belongs to it.
  bool step(std::size_t& node, unsigned char byte, bool& has_text) const;
  // The text of a node that has one; empty where its value is outside of the texts or inside a character.
  std::string_view text_of(std::size_t node) const;
  std::size_t root() const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // each ends with a zero byte
  std::array<std::optional<std::string_view>, 128> single_ = {};
  std::array<bool, 128> is_single_ = {};
};

}  // namespace headway::inline v0::internal

// What Unicode says of characters, as Hugging Face's tokenizers ask it, and UTF-8 that is known to be valid.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// Bits of a character.
enum CharacterBits : std::uint16_t {
  kLetter = 1 << 0,
  kNumber = 1 << 1,
  kSpace = 1 << 2,        // White_Space
  kPunctuation = 1 << 3,  // a category P*, or ASCII punctuation
  kNonspacing = 1 << 4,   // Mn
  kMark = 1 << 5,         // a category M*
  kOther = 1 << 6,        // Cc, Cf, Co
  kWordPart = 1 << 7,     // \w
  // No normalisation of this form changes it or anything beside it.
  kStableNfc = 1 << 8,
  kStableNfd = 1 << 9,
  kStableNfkc = 1 << 10,
  kStableNfkd = 1 << 11,
  kReordered = 1 << 12,  // its combining class is not 0
};

// The bits of all characters of the basic plane, made at the first use; those of others are found when asked.
class CharacterTable {
 public:
  static const CharacterTable& get();

  std::uint16_t operator[](char32_t character) const {
    return character < kPlane ? bits_[character] : outside_plane(character);
  }
  bool has(char32_t character, unsigned bits) const { return ((*this)[character] & bits) != 0; }

 private:
  static constexpr char32_t kPlane = 0x10000;

  CharacterTable();
  static std::uint16_t outside_plane(char32_t character);

  std::unique_ptr<std::uint16_t[]> bits_;  // [kPlane]
};

// The length of the character that begins with this byte of valid UTF-8.
inline int character_length(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `at`, of valid UTF-8; `length` becomes its bytes.
inline char32_t character_at(const char* at, int& length) {
  const auto byte = [at](int n) { return static_cast<char32_t>(static_cast<unsigned char>(at[n])); };
  length = character_length(*at);
  switch (length) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}
inline char32_t character_at(const char* at) {
  int ignored = 0;
  return character_at(at, ignored);
}

// Calls body(character, begin, end) for each character of valid UTF-8.
template <typename Body>
void for_each_character(std::string_view text, const Body& body) {
  for (std::size_t at = 0; at < text.size();) {
    int length = 0;
    const char32_t character = character_at(text.data() + at, length);
    const std::size_t end = at + static_cast<std::size_t>(length);
    body(character, at, end);
    at = end;
  }
}

// The lower case of a character: one, or the two of U+0130. Returns how many.
int lower_case(char32_t character, std::array<char32_t, 2>& lower);

// The canonical combining class.
int combining_class(char32_t character);
// The characters that NFD or, where `compatible`, NFKD makes of one. Returns how many.
int decompose_character(char32_t character, bool compatible, std::array<char32_t, 32>& parts);
// The character that two compose to, or 0.
char32_t composed_character(char32_t first, char32_t second);

// Whether a grapheme cluster ends between two characters; `state` is 0 at a cluster's begin.
bool is_grapheme_break(char32_t left, char32_t right, std::int32_t& state);

// The characters that stand for the 256 bytes in byte-level vocabularies, as UTF-8 of one or two bytes.
struct ByteCharacter {
  char bytes[2];
  std::uint8_t length;
};
const std::array<ByteCharacter, 256>& byte_characters();
// The byte that a character stands for, or -1.
int byte_of_character(char32_t character);

}  // namespace headway::inline v0::internal

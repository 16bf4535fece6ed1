#include "text/tokenizer/unicode.h"

#include <utf8proc.h>

#include <cstdlib>

#include "base/utf8.h"
#include "text/tokenizer/unicode_versions.h"

namespace headway::inline v0::internal {
namespace {

// Unicode's White_Space.
bool is_unicode_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_ascii_punctuation(char32_t c) {
  return (c >= 0x21 && c <= 0x2F) || (c >= 0x3A && c <= 0x40) || (c >= 0x5B && c <= 0x60) || (c >= 0x7B && c <= 0x7E);
}

// Symbols that are alphabetic: circled and squared letters.
bool is_letter_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
         (c >= 0x1F170 && c <= 0x1F189);
}

bool is_hangul_vowel_or_final(char32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }
bool is_hangul_syllable(char32_t c) { return c >= 0xAC00 && c <= 0xD7A3; }

// Whether a form leaves the character alone as it is.
bool keeps_alone(char32_t c, int options) {
  utf8proc_int32_t buffer[32] = {};
  const auto length = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer, 32,
                                              static_cast<utf8proc_option_t>(options | UTF8PROC_DECOMPOSE), nullptr);
  if (length <= 0 || length > 32) return false;
  const auto composed =
      utf8proc_normalize_utf32(buffer, length, static_cast<utf8proc_option_t>(options | UTF8PROC_COMPOSE));
  return composed == 1 && buffer[0] == static_cast<utf8proc_int32_t>(c);
}

unsigned stable_bits(char32_t c, const utf8proc_property_t& property) {
  if (combining_class(c) != 0) return kReordered;
  if (is_hangul_syllable(c)) return kStableNfc | kStableNfkc;
  const bool decomposes = property.decomp_seqindex != UINT16_MAX && !is_in_ranges(kYoungDecomposed, c);
  // utf8proc's numbers of characters that can be the second of a composed pair.
  const bool second =
      (property.comb_index != UINT16_MAX && property.comb_index >= 0x8000) || is_hangul_vowel_or_final(c);
  unsigned bits = 0;
  if (!decomposes) bits |= kStableNfd | kStableNfkd;
  if (decomposes && property.decomp_type != 0) bits |= kStableNfd;  // of compatibility alone
  if (second) return bits;
  if (!decomposes || keeps_alone(c, UTF8PROC_STABLE)) bits |= kStableNfc;
  if (!decomposes || keeps_alone(c, UTF8PROC_STABLE | UTF8PROC_COMPAT)) bits |= kStableNfkc;
  return bits;
}

std::uint16_t find_bits(char32_t c) {
  const utf8proc_property_t& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  unsigned bits = stable_bits(c, property);
  switch (static_cast<utf8proc_category_t>(property.category)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      bits |= kLetter | kWordPart;
      break;
    case UTF8PROC_CATEGORY_MN:
      bits |= kNonspacing | kMark | kWordPart;
      break;
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      bits |= kMark | kWordPart;
      break;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
      bits |= kNumber | kWordPart;
      break;
    case UTF8PROC_CATEGORY_NO:
      bits |= kNumber;
      break;
    case UTF8PROC_CATEGORY_PC:
      bits |= kPunctuation | kWordPart;
      break;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      bits |= kPunctuation;
      break;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CO:
      bits |= kOther;
      break;
    default:
      break;
  }
  // The tables of the reference say otherwise of these.
  if (is_in_ranges(kYoungPunctuation, c)) bits ^= kPunctuation;
  if (is_in_ranges(kYoungNonspacing, c)) bits ^= kNonspacing;
  if (is_in_ranges(kYoungOther, c)) bits ^= kOther;
  if (is_in_ranges(kYoungMarks, c)) bits ^= kMark;
  if (is_unicode_space(c)) bits |= kSpace;
  if (is_ascii_punctuation(c)) bits |= kPunctuation;
  if (is_letter_symbol(c) || c == 0x200C || c == 0x200D) bits |= kWordPart;
  return static_cast<std::uint16_t>(bits);
}

}  // namespace

CharacterTable::CharacterTable() : bits_(new std::uint16_t[kPlane]) {
  for (char32_t c = 0; c < kPlane; ++c) bits_[c] = find_bits(c);
}

const CharacterTable& CharacterTable::get() {
  static const auto* const table = new CharacterTable();  // never destroyed, for threads that work to the end
  return *table;
}

std::uint16_t CharacterTable::outside_plane(char32_t character) { return find_bits(character); }

int combining_class(char32_t character) {
  if (is_in_ranges(kYoungOrdered, character)) return 0;
  return utf8proc_get_property(static_cast<utf8proc_int32_t>(character))->combining_class;
}

int decompose_character(char32_t character, bool compatible, std::array<char32_t, 32>& parts) {
  utf8proc_int32_t buffer[32] = {};
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0));
  auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character), buffer, 32, options, nullptr);
  if (count <= 0 || count > 32 || is_in_ranges(kYoungDecomposed, character)) {
    buffer[0] = static_cast<utf8proc_int32_t>(character);
    count = 1;
  }
  for (std::size_t n = 0; n < static_cast<std::size_t>(count); ++n) parts[n] = static_cast<char32_t>(buffer[n]);
  return static_cast<int>(count);
}

char32_t composed_character(char32_t first, char32_t second) {
  utf8proc_int32_t pair[2] = {static_cast<utf8proc_int32_t>(first), static_cast<utf8proc_int32_t>(second)};
  const auto length =
      utf8proc_normalize_utf32(pair, 2, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  if (length != 1 || is_in_ranges(kYoungDecomposed, static_cast<char32_t>(pair[0]))) return 0;
  return static_cast<char32_t>(pair[0]);
}

int lower_case(char32_t character, std::array<char32_t, 2>& lower) {
  if (character == 0x130) {  // the one character whose lower case is two
    lower = {0x69, 0x307};
    return 2;
  }
  lower[0] = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(character)));
  return 1;
}

bool is_grapheme_break(char32_t left, char32_t right, std::int32_t& state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(left), static_cast<utf8proc_int32_t>(right),
                                          &state);
}

namespace {

// Printable bytes stand for themselves, the others for characters from U+0100 on.
char32_t character_of_byte(int byte) {
  const auto printable = [](int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; };
  if (printable(byte)) return static_cast<char32_t>(byte);
  char32_t number = 0x100;
  for (int b = 0; b < byte; ++b) number += printable(b) ? 0u : 1u;
  return number;
}

}  // namespace

const std::array<ByteCharacter, 256>& byte_characters() {
  static const std::array<ByteCharacter, 256> characters = [] {
    std::array<ByteCharacter, 256> made = {};
    for (int byte = 0; byte < 256; ++byte) {
      std::string text;
      append_utf8(text, character_of_byte(byte));
      ByteCharacter& one = made[static_cast<std::size_t>(byte)];
      one.length = static_cast<std::uint8_t>(text.size());
      for (std::size_t n = 0; n < text.size(); ++n) one.bytes[n] = text[n];
    }
    return made;
  }();
  return characters;
}

int byte_of_character(char32_t character) {
  static const std::array<std::int16_t, 0x144> bytes = [] {
    std::array<std::int16_t, 0x144> made = {};
    made.fill(-1);
    for (int byte = 0; byte < 256; ++byte) made[character_of_byte(byte)] = static_cast<std::int16_t>(byte);
    return made;
  }();
  return character < bytes.size() ? bytes[character] : -1;
}

}  // namespace headway::inline v0::internal

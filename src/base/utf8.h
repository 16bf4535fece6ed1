// UTF-8: what is valid, what the characters are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// Takes the first character off a text that is not empty. What is not UTF-8 gives kReplacementCharacter, once for every
// longest part that could have begun a character; `valid` then becomes false, else it is left alone.
char32_t next_character(std::string_view& text, bool& valid);
char32_t next_character(std::string_view& text);
// Puts a character behind a text.
void append_utf8(std::string& text, char32_t character);

bool is_utf8(std::string_view text);
// The text itself, with U+FFFD in place of what is not UTF-8.
std::string repaired_utf8(std::string_view text);
std::u32string decode_utf8(std::string_view text);
// The text, or its first `most` bytes with "..." behind them, cut between characters: for messages.
std::string shortened(std::string_view text, std::size_t most);
std::int64_t count_characters(std::string_view text);

// What Unicode calls white space, and the separators U+001C .. U+001F.
bool is_white_space(char32_t character);
bool is_blank(std::string_view text);

}  // namespace headway::inline v0::internal

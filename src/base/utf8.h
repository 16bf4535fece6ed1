// UTF-8: validation, and decoding into characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// Removes the first character of a text that is not empty and returns it. Invalid UTF-8 yields kReplacementCharacter,
// once for every longest part that could begin a character; `valid` then becomes false, else it is unchanged.
char32_t next_character(std::string_view& text, bool& valid);
char32_t next_character(std::string_view& text);
// Appends a character to a text.
void append_utf8(std::string& text, char32_t character);

bool is_utf8(std::string_view text);
// The text with invalid UTF-8 replaced by U+FFFD.
std::string repaired_utf8(std::string_view text);
std::u32string decode_utf8(std::string_view text);
// The text, or its first `most` bytes followed by "...", cut between characters: for messages.
std::string shortened(std::string_view text, std::size_t most);
std::int64_t count_characters(std::string_view text);

// What Unicode calls white space, and the separators U+001C .. U+001F.
bool is_white_space(char32_t character);
bool is_blank(std::string_view text);

}  // namespace headway::inline v0::internal

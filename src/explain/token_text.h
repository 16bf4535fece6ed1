// Tokens as people read them: words without SentencePiece's marks, and text that is safe in pages and terminals.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

struct TokenText {
  std::string text;          // without the mark of a word's beginning
  bool starts_word = false;  // had that mark
  bool special = false;      // </s>, <pad>, >>deu<<, <0xE2>
};

// The text to show for a token. Invalid UTF-8, control characters and marks that turn the writing direction become
// U+FFFD.
TokenText token_text(std::string_view token);

// Valid UTF-8 without control characters and direction marks: each becomes U+FFFD.
std::string printable(std::string_view text);

// How many columns of a terminal a printable text takes.
std::int64_t display_width(std::string_view text);
// The text cut to at most `width` columns, its end then an ellipsis.
std::string cut_to_width(std::string_view text, std::int64_t width);
// Each character of a printable text with the marks that combine with it.
std::vector<std::string> characters(std::string_view text);

struct TokenSpan {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
// The occurrences of a word among tokens: the runs of pieces that spell it as whole words; if there are none, as parts
// of words; if there are none, either with the case of ASCII letters ignored. A token itself also matches.
std::vector<TokenSpan> find_word(const std::vector<std::string>& tokens, const std::string& word);

}  // namespace headway::inline v0::internal

// Patterns of tokenizer files: texts and regular expressions.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/split_text.h"

namespace headway::inline v0::internal {

class Json;

// Finds matches from left to right, as Oniguruma does for Hugging Face's tokenizers.
class TextPattern {
 public:
  virtual ~TextPattern() = default;
  // The parts of a text that match and those between them, added to `parts`; `shift` is added to the positions.
  virtual void parts_of(std::string_view text, std::size_t shift, std::vector<MatchedPart>& parts) const = 0;
};

// The parts, where find(from, begin, end) finds the first match from `from` on.
void collect_parts(std::string_view text, std::size_t shift, std::vector<MatchedPart>& parts,
                   FunctionRef<bool(std::size_t from, std::size_t& begin, std::size_t& end)> find);

std::unique_ptr<TextPattern> literal_pattern(std::string literal);
// Errors begin with `about`.
std::unique_ptr<TextPattern> regex_pattern(std::string_view regex, const std::string& about);
// {"String": ...} or {"Regex": ...}, as files have it.
std::unique_ptr<TextPattern> read_pattern(const Json& json, const std::string& about);

// Well-known regular expressions that have a scanner of their own.
enum class KnownPattern { none, gpt2, llama3, qwen2 };
KnownPattern known_pattern(std::string_view regex);
// The end of the match that begins at `at`. These patterns match everywhere: each end is the next begin.
std::size_t scan_known(KnownPattern pattern, std::string_view text, std::size_t at);

}  // namespace headway::inline v0::internal

// Scanners for the regular expressions that most byte-level tokenizers split by.
#include "text/tokenizer/pattern.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kGpt2Grouped = R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";

// A text with the bits of its characters.
class WordScanner {
 public:
  WordScanner(std::string_view text) : text_(text), table_(CharacterTable::get()) {}

  // The bits at `at`, 0 at the end; `next` becomes the position behind the character.
  unsigned bits(std::size_t at, std::size_t& next) const {
    next = at;
    if (at >= text_.size()) return 0;
    int length = 0;
    const char32_t c = character_at(text_.data() + at, length);
    next = at + static_cast<std::size_t>(length);
    return table_[c];
  }
  // The end of the run of characters that have one of `wanted`, or with `none` of them.
  std::size_t run(std::size_t at, unsigned wanted) const {
    for (std::size_t next = at; at < text_.size(); at = next) {
      if ((bits(at, next) & wanted) == 0) break;
    }
    return at;
  }
  std::size_t run_without(std::size_t at, unsigned unwanted) const {
    for (std::size_t next = at; at < text_.size(); at = next) {
      if ((bits(at, next) & unwanted) != 0) break;
    }
    return at;
  }
  char byte(std::size_t at) const { return at < text_.size() ? text_[at] : '\0'; }

  // \s+(?!\S)|\s+ : a run of spaces, without its last one where text follows.
  std::size_t spaces(std::size_t at) const {
    const std::size_t end = run(at, kSpace);
    if (end == text_.size()) return end;
    std::size_t last = end;
    do --last;
    while ((static_cast<unsigned char>(text_[last]) & 0xC0) == 0x80);
    return last > at ? last : end;
  }

  // 's 't 'm 'd 're 've 'll behind an apostrophe, or 0.
  std::size_t contraction(std::size_t at, bool any_case) const {
    const auto lower = [any_case](char c) { return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    const char first = lower(byte(at + 1)), second = lower(byte(at + 2));
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) {
      return at + 3;
    }
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if (any_case && byte(at + 1) == '\xC5' && byte(at + 2) == '\xBF') return at + 3;  // U+017F, a long s
    return 0;
  }

  std::size_t gpt2(std::size_t at) const {
    if (byte(at) == '\'') {
      if (const std::size_t end = contraction(at, false)) return end;
    }
    const std::size_t start = byte(at) == ' ' ? at + 1 : at;
    std::size_t next = 0;
    const unsigned bits = this->bits(start, next);
    if (bits & kLetter) return run(next, kLetter);
    if (bits & kNumber) return run(next, kNumber);
    if (next > start && !(bits & kSpace)) return run_without(next, kSpace | kLetter | kNumber);
    return spaces(at);
  }

  std::size_t llama3(std::size_t at, int most_digits) const {
    const char first_byte = byte(at);
    if (first_byte == '\'') {
      if (const std::size_t end = contraction(at, true)) return end;
    }
    std::size_t next = 0, second = 0;
    const unsigned first = bits(at, next);
    if (first & kLetter) return run(next, kLetter);
    if (!(first & kNumber) && first_byte != '\r' && first_byte != '\n') {
      if (bits(next, second) & kLetter) return run(second, kLetter);
    }
    if (first & kNumber) {
      std::size_t end = next;
      for (int digits = 1; digits < most_digits; ++digits) {
        if (!(bits(end, second) & kNumber)) break;
        end = second;
      }
      return end;
    }
    const std::size_t start = first_byte == ' ' ? next : at;
    const unsigned sign = bits(start, second);
    if (second > start && !(sign & (kSpace | kLetter | kNumber))) {
      std::size_t end = run_without(second, kSpace | kLetter | kNumber);
      while (byte(end) == '\r' || byte(end) == '\n') ++end;
      return end;
    }
    const std::size_t end = run(at, kSpace);
    for (std::size_t last = end; last > at; --last) {
      if (text_[last - 1] == '\r' || text_[last - 1] == '\n') return last;
    }
    return spaces(at);
  }

 private:
  std::string_view text_;
  const CharacterTable& table_;
};

}  // namespace

KnownPattern known_pattern(std::string_view regex) {
  if (regex == kGpt2 || regex == kGpt2Grouped) return KnownPattern::gpt2;
  if (regex == kLlama3) return KnownPattern::llama3;
  if (regex == kQwen2) return KnownPattern::qwen2;
  return KnownPattern::none;
}

std::size_t scan_known(KnownPattern pattern, std::string_view text, std::size_t at) {
  const WordScanner scanner(text);
  switch (pattern) {
    case KnownPattern::gpt2:
      return scanner.gpt2(at);
    case KnownPattern::llama3:
      return scanner.llama3(at, 3);
    case KnownPattern::qwen2:
      return scanner.llama3(at, 1);
    case KnownPattern::none:
      break;
  }
  return text.size();
}

}  // namespace headway::inline v0::internal

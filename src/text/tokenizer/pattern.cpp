#include "text/tokenizer/pattern.h"

#include "base/check.h"
#include "base/json.h"
#include "base/push_copy.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

class LiteralPattern : public TextPattern {
 public:
  explicit LiteralPattern(std::string literal) : literal_(std::move(literal)) {}
  void parts_of(std::string_view text, std::size_t shift, std::vector<MatchedPart>& parts) const override {
    collect_parts(text, shift, parts, [&](std::size_t from, std::size_t& begin, std::size_t& end) {
      begin = text.find(literal_, from);
      end = begin + literal_.size();
      return begin != std::string_view::npos;
    });
  }

 private:
  std::string literal_;
};

}  // namespace

void collect_parts(std::string_view text, std::size_t shift, std::vector<MatchedPart>& parts,
                   FunctionRef<bool(std::size_t from, std::size_t& begin, std::size_t& end)> find) {
  std::size_t from = 0, previous = 0, begin = 0, end = 0;
  bool matched = false;
  while (from <= text.size() && find(from, begin, end)) {
    if (begin == end && matched && previous == end) {
      // An empty match at the end of the last one: go on behind the next character.
      from += from < text.size() ? static_cast<std::size_t>(character_length(text[from])) : 1;
      continue;
    }
    if (previous < begin) push_copy(parts, {shift + previous, shift + begin, false});
    push_copy(parts, {shift + begin, shift + end, true});
    from = previous = end;
    matched = true;
  }
  if (previous < text.size()) parts.push_back({shift + previous, shift + text.size(), false});
}

std::unique_ptr<TextPattern> literal_pattern(std::string literal) {
  return std::make_unique<LiteralPattern>(std::move(literal));
}

std::unique_ptr<TextPattern> read_pattern(const Json& json, const std::string& about) {
  if (const Json* literal = json.find("String")) {
    check(literal->is_string(), about, ": String is ", literal->kind_name(), ", expected a string");
    return literal_pattern(literal->string());
  }
  const Json* regex = json.find("Regex");
  check(regex != nullptr && regex->is_string(), about, ": pattern is ", json.kind_name(),
        ", expected {\"String\": ...} or {\"Regex\": ...}");
  return regex_pattern(regex->string(), about);
}

}  // namespace headway::inline v0::internal

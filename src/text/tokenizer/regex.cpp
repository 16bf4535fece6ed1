// Regular expressions by PCRE2, with the meaning that Oniguruma gives them.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cctype>
#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/pattern.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kLongestRegex = 10000;
// Backtracking ends with an Error instead of never.
constexpr std::uint32_t kMatchLimit = 10'000'000;

// The contents of classes. PCRE2 counts U+180E as a space, and knows fewer word characters.
constexpr std::string_view kSpaceClass =
    R"(\x09-\x0D\x20\x85\xA0\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
constexpr std::string_view kNoSpaceClass =
    R"(\x00-\x08\x0E-\x1F\x21-\x84\x86-\x9F\xA1-\x{167F}\x{1681}-\x{1FFF}\x{200B}-\x{2027}\x{202A}-\x{202E})"
    R"(\x{2030}-\x{205E}\x{2060}-\x{2FFF}\x{3001}-\x{10FFFF})";
constexpr std::string_view kWordClass =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24B6}-\x{24E9}\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189})";
// Outside classes Oniguruma's \w has the small numbers of Latin-1 too.
constexpr std::string_view kWordExtra = R"(\xB2\xB3\xB9\xBC-\xBE)";
constexpr std::string_view kHexClass = "0-9A-Fa-f";

// Rewrites what PCRE2 reads differently from Oniguruma, and refuses what cannot be rewritten.
class RegexRewriter {
 public:
  RegexRewriter(std::string_view regex, const std::string& about) : regex_(regex), about_(about) {}

  std::string rewrite() {
    while (at_ < regex_.size()) {
      const char c = regex_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character(c);
      } else if (c == '[') {
        open_class();
      } else if (c == '{') {
        interval();
      } else {
        made_ += c;
        ++at_;
      }
    }
    return std::move(made_);
  }

 private:
  void escape() {
    check(at_ + 1 < regex_.size(), about_, ": the regular expression ends in a backslash");
    const char c = regex_[at_ + 1];
    const auto put_class = [&](std::string_view inside, bool negated) {
      check(!(negated && in_class_), about_, ": \\", std::string(1, c), " inside a class is not supported");
      made_ += in_class_ ? "" : negated ? "[^" : "[";
      made_ += inside;
      made_ += in_class_ ? "" : "]";
    };
    at_ += 2;
    if (c == 's') return put_class(kSpaceClass, false);
    if (c == 'S') return put_class(in_class_ ? kNoSpaceClass : kSpaceClass, !in_class_);
    const std::string word = std::string(kWordClass) + std::string(in_class_ ? "" : kWordExtra);
    if (c == 'w') return put_class(word, false);
    if (c == 'W') return put_class(word, true);
    if ((c == 'b' || c == 'B') && !in_class_) {
      const std::string after = "(?<=[" + word + "])", before = "(?=[" + word + "])";
      const std::string not_after = "(?<![" + word + "])", not_before = "(?![" + word + "])";
      made_ +=
          "(?:" + after + (c == 'b' ? not_before : before) + "|" + not_after + (c == 'b' ? before : not_before) + ")";
      return;
    }
    if (c == 'h') return put_class(kHexClass, false);
    if (c == 'H') return put_class(kHexClass, true);
    made_ += '\\';
    made_ += c;
  }

  void open_class() {
    in_class_ = true;
    made_ += '[';
    ++at_;
    if (at_ < regex_.size() && regex_[at_] == '^') made_ += regex_[at_++];
    if (at_ < regex_.size() && regex_[at_] == ']') {
      made_ += "\\]";
      ++at_;
    }
  }

  void class_character(char c) {
    if (c == ']') in_class_ = false;
    if (c == '[') {
      const std::size_t end = regex_.find(":]", at_);
      check(regex_.substr(at_).starts_with("[:") && end != std::string_view::npos, about_,
            ": a class inside a class of a regular expression is not supported");
      made_ += regex_.substr(at_, end + 2 - at_);
      at_ = end + 2;
      return;
    }
    check(!regex_.substr(at_).starts_with("&&"), about_, ": && in a class of a regular expression is not supported");
    made_ += c;
    ++at_;
  }

  // X{n,m}+ repeats X{n,m} in Oniguruma and is possessive in PCRE2.
  void interval() {
    const std::size_t end = regex_.find('}', at_);
    const std::string_view inside = end == std::string_view::npos ? "" : regex_.substr(at_ + 1, end - at_ - 1);
    const bool is_interval = !inside.empty() && inside.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!is_interval || end + 1 >= regex_.size() || regex_[end + 1] != '+') {
      made_ += '{';
      ++at_;
      return;
    }
    const bool from_one = inside.starts_with("0,") || inside.starts_with("1,") || inside == "1";
    check(from_one, about_, ": {", inside, "}+ in a regular expression is not supported");
    made_ += inside[0] == '0' ? "{0,}" : "{1,}";
    at_ = end + 2;
  }

  std::string_view regex_;
  const std::string& about_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string made_;
};

struct FreeCode {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct FreeMatch {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct FreeContext {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};

std::string message_of_pcre(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

class RegexPattern : public TextPattern {
 public:
  RegexPattern(std::string_view regex, const std::string& about) : about_(about) {
    check(regex.size() <= kLongestRegex, about, ": the regular expression has ", regex.size(),
          " bytes, expected at most ", kLongestRegex);
    const std::string rewritten = RegexRewriter(regex, about).rewrite();
    int error = 0;
    PCRE2_SIZE where = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &where,
                              nullptr));
    check(code_ != nullptr, about, ": the regular expression \"", shortened(regex, 200),
          "\" cannot be read: ", code_ ? "" : message_of_pcre(error));
    pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // where it fails, matching interprets
    context_.reset(pcre2_match_context_create(nullptr));
    check(context_ != nullptr, about, ": no memory for the regular expression");
    pcre2_set_match_limit(context_.get(), kMatchLimit);
  }

  void parts_of(std::string_view text, std::size_t shift, std::vector<MatchedPart>& parts) const override {
    const std::unique_ptr<pcre2_match_data, FreeMatch> match(
        pcre2_match_data_create_from_pattern(code_.get(), nullptr));
    check(match != nullptr, about_, ": no memory for the regular expression");
    collect_parts(text, shift, parts, [&](std::size_t from, std::size_t& begin, std::size_t& end) {
      int found = search(text, from, *match, PCRE2_NO_UTF_CHECK);
      if (found == PCRE2_ERROR_JIT_STACKLIMIT) found = search(text, from, *match, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT);
      if (found == PCRE2_ERROR_NOMATCH) return false;
      check(found > 0, about_, ": the regular expression fails: ", found > 0 ? "" : message_of_pcre(found));
      const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(match.get());
      begin = ends[0];
      end = ends[1];
      check(begin <= end && begin >= from, about_, ": the regular expression matches backwards");
      return true;
    });
  }

 private:
  int search(std::string_view text, std::size_t from, pcre2_match_data& match, std::uint32_t options) const {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, options, &match,
                       context_.get());
  }

  std::string about_;
  std::unique_ptr<pcre2_code, FreeCode> code_;
  std::unique_ptr<pcre2_match_context, FreeContext> context_;
};

}  // namespace

std::unique_ptr<TextPattern> regex_pattern(std::string_view regex, const std::string& about) {
  return std::make_unique<RegexPattern>(regex, about);
}

}  // namespace headway::inline v0::internal

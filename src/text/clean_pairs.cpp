// Cleaning sentence pairs.
#include <algorithm>
#include <unordered_set>

#include "base/check.h"
#include "base/utf8.h"
#include "headway/text_pairs.h"

namespace headway::inline v0 {
namespace {

// The ratio is checked above this many characters: "Hi." may well be "Grüß Gott!".
constexpr std::int64_t kShort = 20;

bool is_control(char32_t character) { return character < 0x20 || (character >= 0x7F && character < 0xA0); }

// Control characters become spaces, runs of spaces become one space, and spaces at the ends are removed. Other white
// space, such as a no-break space, is kept.
std::string cleaned(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  bool space_before = true;
  while (!text.empty()) {
    const std::string_view before = text;
    bool valid = true;
    const char32_t character = internal::next_character(text, valid);
    const bool space = character == ' ' || is_control(character);
    if (!space) {
      clean += valid ? before.substr(0, before.size() - text.size()) : std::string_view("\xEF\xBF\xBD");
    } else if (!space_before) {
      clean += ' ';
    }
    space_before = space;
  }
  if (!clean.empty() && clean.back() == ' ') clean.pop_back();
  return clean;
}

}  // namespace

CleaningReport clean_pairs(std::vector<TextPair>& pairs, const CleaningOptions& options) {
  internal::check(options.max_characters >= 1, "clean_pairs: max_characters is ", options.max_characters,
                  ", expected at least 1");
  internal::check(options.max_ratio >= 1.0, "clean_pairs: max_ratio is ", options.max_ratio, ", expected at least 1");
  CleaningReport report;
  std::unordered_set<std::string> seen;
  const auto refused = [&](const TextPair& pair) {
    const std::int64_t source = internal::count_characters(pair.source);
    const std::int64_t target = internal::count_characters(pair.target);
    const std::int64_t longer = std::max(source, target);
    if (internal::is_blank(pair.source) || internal::is_blank(pair.target)) return ++report.empty > 0;
    if (longer > options.max_characters) return ++report.too_long > 0;
    if (longer > kShort &&
        static_cast<double>(longer) > options.max_ratio * static_cast<double>(std::min(source, target))) {
      return ++report.ratio > 0;
    }
    // Cleaned texts have no tabs, so the key is unique to the pair.
    if (!seen.insert(pair.source + '\t' + pair.target).second) return ++report.duplicates > 0;
    return false;
  };
  for (TextPair& pair : pairs) {
    pair.source = cleaned(pair.source);
    pair.target = cleaned(pair.target);
  }
  std::erase_if(pairs, refused);
  report.kept = static_cast<std::int64_t>(pairs.size());
  return report;
}

}  // namespace headway::inline v0

// Lines, sentences and parts of texts.
#include "text/sentences.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/function_ref.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

bool is_one_of(char32_t character, std::u32string_view set) { return set.find(character) != std::u32string_view::npos; }

bool ends_sentence(char32_t c) { return is_one_of(c, U".!?…。！？"); }
bool needs_no_space(char32_t c) { return is_one_of(c, U"。！？"); }
bool closes(char32_t c) { return is_one_of(c, U"\"')]}”’»“‘›」』"); }

// The characters of a text and where each begins in it.
struct Characters {
  std::u32string values;
  std::vector<std::size_t> places;  // (characters + 1) byte offsets, and the end of the last character

  explicit Characters(std::string_view text, std::size_t most = std::string_view::npos) {
    std::string_view rest = text;
    bool valid = true;
    while (!rest.empty() && values.size() < most) {
      places.push_back(text.size() - rest.size());
      values.push_back(next_character(rest, valid));
    }
    places.push_back(text.size() - rest.size());
  }
};

// Whether the full stop at `stop` belongs to the word before it, as in "Dr.".
bool is_abbreviation(const Characters& text, std::size_t stop) {
  constexpr std::array<std::u32string_view, 22> kCommon = {
      U"Dr", U"Prof", U"Mr", U"Mrs", U"Ms", U"St", U"Nr",  U"No",  U"Hr",   U"Fr",   U"bzw",
      U"ca", U"usw",  U"vs", U"etc", U"Jr", U"Sr", U"vgl", U"Str", U"inkl", U"evtl", U"Abs"};
  std::size_t first = stop;
  while (first > 0 && !is_white_space(text.values[first - 1]) && text.values[first - 1] != U'.' &&
         !is_one_of(text.values[first - 1], U"([\"„“'")) {
    --first;
  }
  const std::u32string_view word = std::u32string_view(text.values).substr(first, stop - first);
  if (word.size() == 1 && word[0] != U'I') return true;
  const bool is_number =
      !word.empty() && std::all_of(word.begin(), word.end(), [](char32_t c) { return c >= U'0' && c <= U'9'; });
  return is_number || std::find(kCommon.begin(), kCommon.end(), word) != kCommon.end();
}

bool is_small_letter(char32_t c) { return (c >= U'a' && c <= U'z') || (c >= 0xDF && c <= 0xFF && c != 0xF7); }

// The text without white space at its begin.
std::string_view without_spaces_before(std::string_view text) {
  for (std::string_view rest = text; !rest.empty(); text = rest) {
    if (!is_white_space(next_character(rest))) return text;
  }
  return text;
}

std::string_view trimmed(std::string_view text) {
  text = without_spaces_before(text);
  std::size_t last = 0;  // where the last character that is no white space ends
  for (std::string_view rest = text; !rest.empty();) {
    if (!is_white_space(next_character(rest))) last = text.size() - rest.size();
  }
  return text.substr(0, last);
}

void add_part(std::string_view part, std::vector<std::string_view>& parts) {
  const std::string_view kept = trimmed(part);
  if (!kept.empty()) parts.push_back(kept);
}

// The most characters of `count` that fit, and at least one: twice as many as the guess, and so on, while they fit,
// then by bisection.
std::size_t most_that_fit(std::size_t count, std::size_t guess, FunctionRef<bool(std::size_t)> fit) {
  std::size_t least = 0, most = std::min(guess, count);
  while (fit(most)) {
    if (most == count) return count;
    least = most;
    most = std::min(2 * most, count);
  }
  least = std::max<std::size_t>(least, 1);
  while (least + 1 < most) {
    const std::size_t middle = least + (most - least) / 2;
    (fit(middle) ? least : most) = middle;
  }
  return least;
}

}  // namespace

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  std::size_t first = 0;
  while (true) {
    const std::size_t end = text.find('\n', first);
    std::string_view line = text.substr(first, end == std::string_view::npos ? end : end - first);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    lines.push_back(line);
    if (end == std::string_view::npos) return lines;
    first = end + 1;
  }
}

std::vector<std::string_view> split_sentences(std::string_view line) {
  const Characters text(line);
  const std::size_t count = text.values.size();
  std::vector<std::string_view> sentences;
  std::size_t first = 0, i = 0;
  while (i < count) {
    if (!ends_sentence(text.values[i])) {
      ++i;
      continue;
    }
    const std::size_t stop = i;
    while (i < count && ends_sentence(text.values[i])) ++i;
    const bool one_full_stop = i == stop + 1 && text.values[stop] == U'.';
    const char32_t last = text.values[i - 1];
    while (i < count && closes(text.values[i])) ++i;
    std::size_t next = i;
    while (next < count && is_white_space(text.values[next])) ++next;
    const bool apart = next > i || needs_no_space(last) || next == count;
    const bool goes_on =
        one_full_stop && next < count && (is_small_letter(text.values[next]) || is_abbreviation(text, stop));
    if (!apart || goes_on) continue;
    add_part(line.substr(text.places[first], text.places[i] - text.places[first]), sentences);
    first = i = next;
  }
  add_part(line.substr(text.places[first]), sentences);
  return sentences;
}

std::vector<std::string_view> split_to_fit(std::string_view text, const std::function<bool(std::string_view)>& fits) {
  constexpr std::size_t kMostCharacters = 4096;  // of a part; keeps the time linear in the length of the text
  std::vector<std::string_view> parts;
  std::string_view rest = trimmed(text);
  std::size_t guess = kMostCharacters;  // as many as fitted into the part before
  while (!rest.empty()) {
    const Characters characters(rest, kMostCharacters);
    const auto fit = [&](std::size_t count) { return fits(rest.substr(0, characters.places[count])); };
    const std::size_t least = most_that_fit(characters.values.size(), guess, fit);
    guess = least;
    if (least == characters.values.size() && characters.places[least] == rest.size()) {
      parts.push_back(rest);
      break;
    }
    // Cuts after a comma or the like in the second half, else at white space.
    std::size_t cut = least, space = 0, pause = 0;
    for (std::size_t i = 1; i <= least && i < characters.values.size(); ++i) {
      if (!is_white_space(characters.values[i])) continue;
      space = i;
      if (is_one_of(characters.values[i - 1], U",;:–—")) pause = i;
    }
    if (space > 0) cut = pause > least / 2 ? pause : space;
    add_part(rest.substr(0, characters.places[cut]), parts);
    rest.remove_prefix(characters.places[cut]);
    rest = without_spaces_before(rest);
  }
  return parts;
}

}  // namespace headway::inline v0::internal

// The tokenizer mteval-v13a, as sacreBLEU has it.
#include "base/utf8.h"
#include "headway/translation_scores.h"

namespace headway::inline v0 {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_dot_or_comma(char c) { return c == '.' || c == ','; }

// ASCII punctuation that is always a token of its own: all except ' - . and ,.
bool is_cut_off(char c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  std::string replaced;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, done)) {
    replaced.append(text, done, at - done).append(by);
    done = at + what.size();
  }
  if (done > 0) text = replaced.append(text, done);
}

std::string cut_off_punctuation(const std::string& text) {
  std::string cut;
  for (const char c : text) {
    if (is_cut_off(c)) {
      cut.append({' ', c, ' '});
    } else {
      cut += c;
    }
  }
  return cut;
}

// Replaces every two neighbours that match, from left to right without overlap, by `form`, in which 'a' and 'b' stand
// for the two characters.
template <typename Match>
std::string rewrite_neighbours(const std::string& text, Match match, std::string_view form) {
  std::string rewritten;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !match(text[i], text[i + 1])) {
      rewritten += text[i];
      continue;
    }
    for (const char c : form) rewritten += c == 'a' ? text[i] : c == 'b' ? text[i + 1] : c;
    ++i;
  }
  return rewritten;
}

// The words separated by one space each.
std::string single_spaced(std::string_view text) {
  std::string joined;
  bool pending = false;  // a space before the next word
  for (bool valid = true; !text.empty();) {
    const std::string_view before = text;
    if (internal::is_white_space(internal::next_character(text, valid))) {
      pending = !joined.empty();
      continue;
    }
    if (pending) joined += ' ';
    pending = false;
    joined += before.substr(0, before.size() - text.size());
  }
  return joined;
}

}  // namespace

std::string tokenize_13a(std::string_view sentence) {
  std::string text = internal::repaired_utf8(sentence);
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  replace_all(text, "&quot;", "\"");
  replace_all(text, "&amp;", "&");
  replace_all(text, "&lt;", "<");
  replace_all(text, "&gt;", ">");
  text = cut_off_punctuation(' ' + text + ' ');
  // Dots and commas are tokens unless digits are on both sides, dashes are where a digit is before them.
  text = rewrite_neighbours(
      text, [](char a, char b) { return !is_digit(a) && is_dot_or_comma(b); }, "a b ");
  text = rewrite_neighbours(
      text, [](char a, char b) { return is_dot_or_comma(a) && !is_digit(b); }, " a b");
  text = rewrite_neighbours(
      text, [](char a, char b) { return is_digit(a) && b == '-'; }, "a b ");
  return single_spaced(text);
}

}  // namespace headway::inline v0

// Tags, spans and their scores.
#include "training/span_scores.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/check.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

std::int64_t label_number(const std::vector<std::string>& labels, const std::string& label) {
  const auto found = std::find(labels.begin(), labels.end(), label);
  check(found != labels.end(), "there is no label \"", label, "\" in the training data");
  return found - labels.begin();
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

bool is_punctuation(char character) { return std::ispunct(static_cast<unsigned char>(character)) != 0; }

// The words of an answer, as SQuAD's script normalises them.
std::vector<std::string> answer_words(std::string_view answer) {
  std::string text;
  for (const char character : answer) {
    if (!is_punctuation(character)) text += static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  std::vector<std::string> words;
  std::string word;
  const auto finish = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the") words.push_back(word);
    word.clear();
  };
  for (std::string_view rest = text; !rest.empty();) {
    const char32_t character = next_character(rest);
    if (is_white_space(character)) {
      finish();
    } else {
      append_utf8(word, character);
    }
  }
  finish();
  return words;
}

}  // namespace

std::vector<std::string> tag_names(const std::vector<std::string>& labels) {
  std::vector<std::string> names = {"O"};
  for (const std::string& label : labels) {
    names.push_back("B-" + label);
    names.push_back("I-" + label);
  }
  return names;
}

std::vector<std::int64_t> tags_of_spans(const TokenizedText& text, const std::vector<TextSpan>& spans,
                                        const std::vector<std::string>& labels) {
  std::vector<std::int64_t> tags;
  const TextSpan* previous = nullptr;  // the span of the token before
  for (std::size_t i = 0; i < text.ids.size(); ++i) {
    if (text.sequence[i] < 0) {
      tags.push_back(kNoLabel);
      continue;
    }
    const auto here = std::find_if(spans.begin(), spans.end(), [&](const TextSpan& span) {
      return text.offsets[i].begin < span.end && span.begin < text.offsets[i].end;
    });
    const TextSpan* const span = here == spans.end() ? nullptr : &*here;
    const bool first = span != previous;
    tags.push_back(span == nullptr ? 0 : 2 * label_number(labels, span->label) + (first ? 1 : 2));
    previous = span;
  }
  return tags;
}

std::vector<TextSpan> spans_of_tags(const TokenizedText& text, const std::vector<std::int64_t>& tags,
                                    const std::vector<std::string>& labels) {
  std::vector<TextSpan> spans;
  std::int64_t open = -1;  // the label of the span that the token before belongs to
  for (std::size_t i = 0; i < tags.size(); ++i) {
    if (text.sequence[i] < 0 || tags[i] <= 0) {
      open = -1;
      continue;
    }
    const std::int64_t label = (tags[i] - 1) / 2;
    const bool begins = tags[i] % 2 == 1 || label != open;
    if (begins) {
      spans.push_back({text.offsets[i].begin, text.offsets[i].end, labels[static_cast<std::size_t>(label)]});
    } else {
      spans.back().end = text.offsets[i].end;
    }
    open = label;
  }
  return spans;
}

void SpanCounts::add(const std::vector<TextSpan>& ours, const std::vector<TextSpan>& theirs) {
  predicted += std::ssize(ours);
  expected += std::ssize(theirs);
  for (const TextSpan& span : ours) right += std::count(theirs.begin(), theirs.end(), span);
}

double SpanCounts::precision() const { return share(right, predicted); }
double SpanCounts::recall() const { return share(right, expected); }
double SpanCounts::f1() const { return share(2 * right, predicted + expected); }

double answer_f1(std::string_view answer, std::string_view expected) {
  const std::vector<std::string> ours = answer_words(answer), theirs = answer_words(expected);
  if (ours.empty() || theirs.empty()) return ours == theirs ? 1.0 : 0.0;
  std::map<std::string, std::int64_t> counts;
  for (const std::string& word : theirs) ++counts[word];
  std::int64_t common = 0;
  for (const std::string& word : ours) common += counts[word]-- > 0 ? 1 : 0;
  return share(2 * common, std::ssize(ours) + std::ssize(theirs));
}

bool answer_exact(std::string_view answer, std::string_view expected) {
  return answer_words(answer) == answer_words(expected);
}

}  // namespace headway::inline v0::internal

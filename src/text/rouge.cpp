// ROUGE-1, ROUGE-2 and ROUGE-L, as rouge-score computes them.
#include "headway/rouge.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/utf8.h"

namespace headway::inline v0 {
namespace {

using Words = std::vector<std::string>;

constexpr char32_t kKelvinSign = 0x212A;       // its lower case is k
constexpr char32_t kCapitalIWithDot = 0x0130;  // its lower case is i and a combining dot
constexpr std::size_t kLongestUnstemmed = 3;   // letters

// Appends a word, or its stem.
void add_word(Words& words, std::string& word, bool stemmer) {
  if (stemmer && word.size() > kLongestUnstemmed) word = porter_stem(word);
  if (!word.empty()) words.push_back(std::move(word));
  word.clear();
}

Words words_of(std::string_view text, const RougeOptions& options) {
  Words words;
  std::string word;
  while (!text.empty()) {
    char32_t character = internal::next_character(text);
    if (character >= 'A' && character <= 'Z') character += 'a' - 'A';
    if (character == kKelvinSign) character = 'k';
    const bool dotted = character == kCapitalIWithDot;
    if (dotted) character = 'i';
    if ((character >= 'a' && character <= 'z') || (character >= '0' && character <= '9')) {
      word += static_cast<char>(character);
      if (!dotted) continue;
    }
    add_word(words, word, options.stemmer);
  }
  add_word(words, word, options.stemmer);
  return words;
}

RougeScore score_of(std::int64_t common, std::size_t ours, std::size_t theirs) {
  RougeScore score;
  if (ours > 0) score.precision = static_cast<double>(common) / static_cast<double>(ours);
  if (theirs > 0) score.recall = static_cast<double>(common) / static_cast<double>(theirs);
  const double sum = score.precision + score.recall;
  if (sum > 0.0) score.f1 = 2.0 * score.precision * score.recall / sum;
  return score;
}

// How often each run of `order` words occurs; the words are joined by spaces.
std::map<std::string, std::int64_t> word_ngrams(const Words& words, std::size_t order) {
  std::map<std::string, std::int64_t> counts;
  for (std::size_t start = 0; start + order <= words.size(); ++start) {
    std::string ngram = words[start];
    for (std::size_t i = 1; i < order; ++i) ngram += ' ' + words[start + i];
    ++counts[ngram];
  }
  return counts;
}

RougeScore ngram_score(const Words& ours, const Words& theirs, std::size_t order) {
  const auto reference = word_ngrams(theirs, order);
  std::int64_t common = 0;
  for (const auto& [ngram, count] : word_ngrams(ours, order)) {
    const auto found = reference.find(ngram);
    if (found != reference.end()) common += std::min(count, found->second);
  }
  const auto ngrams_in = [order](const Words& words) { return words.size() + 1 - std::min(words.size() + 1, order); };
  return score_of(common, ngrams_in(ours), ngrams_in(theirs));
}

std::int64_t longest_common_subsequence(const Words& a, const Words& b) {
  std::vector<std::int64_t> row(b.size() + 1, 0);  // [j]: of the words of `a` so far and the first j of `b`
  for (const std::string& word : a) {
    std::int64_t diagonal = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::int64_t above = row[j + 1];
      row[j + 1] = word == b[j] ? diagonal + 1 : std::max(above, row[j]);
      diagonal = above;
    }
  }
  return row.back();
}

void add_to(RougeScore& sum, const RougeScore& score, double weight) {
  sum.precision += weight * score.precision;
  sum.recall += weight * score.recall;
  sum.f1 += weight * score.f1;
}

}  // namespace

RougeScores rouge(std::string_view text, std::string_view reference, const RougeOptions& options) {
  const Words ours = words_of(text, options), theirs = words_of(reference, options);
  return {.rouge1 = ngram_score(ours, theirs, 1),
          .rouge2 = ngram_score(ours, theirs, 2),
          .rouge_l = score_of(longest_common_subsequence(ours, theirs), ours.size(), theirs.size())};
}

RougeScores rouge(const std::vector<std::string>& texts, const std::vector<std::string>& references,
                  const RougeOptions& options) {
  internal::check(texts.size() == references.size(), "rouge: there are ", texts.size(), " texts and ",
                  references.size(), " references, expected as many");
  RougeScores means;
  const double weight = 1.0 / static_cast<double>(std::max<std::size_t>(texts.size(), 1));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const RougeScores scores = rouge(texts[i], references[i], options);
    add_to(means.rouge1, scores.rouge1, weight);
    add_to(means.rouge2, scores.rouge2, weight);
    add_to(means.rouge_l, scores.rouge_l, weight);
  }
  return means;
}

}  // namespace headway::inline v0

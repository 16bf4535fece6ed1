// Corpus BLEU, as sacreBLEU computes it.
#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>

#include "base/check.h"
#include "base/utf8.h"
#include "headway/translation_scores.h"

namespace headway::inline v0 {
namespace {

constexpr std::size_t kOrders = 4;

// Sums over a corpus.
struct Counts {
  std::array<std::int64_t, kOrders> correct = {};
  std::array<std::int64_t, kOrders> total = {};
  std::int64_t hypothesis_length = 0;
  std::int64_t reference_length = 0;
};

// A sentence's n-grams of all orders. Words are separated by one space each, so an n-gram is a substring of the text,
// and n-grams of different orders differ.
struct Ngrams {
  std::unordered_map<std::string_view, std::int64_t> count = {};
  std::int64_t words = 0;
};

Ngrams ngrams_of(std::string_view tokenized) {
  Ngrams ngrams;
  std::vector<std::pair<std::size_t, std::size_t>> words;  // start and end
  for (std::size_t start = 0; start < tokenized.size();) {
    const std::size_t end = std::min(tokenized.find(' ', start), tokenized.size());
    words.emplace_back(start, end);
    start = end + 1;
  }
  ngrams.words = static_cast<std::int64_t>(words.size());
  for (std::size_t first = 0; first < words.size(); ++first) {
    for (std::size_t last = first; last < std::min(first + kOrders, words.size()); ++last) {
      ++ngrams.count[tokenized.substr(words[first].first, words[last].second - words[first].first)];
    }
  }
  return ngrams;
}

std::size_t order_of(std::string_view ngram) {
  return static_cast<std::size_t>(std::count(ngram.begin(), ngram.end(), ' ')) + 1;
}

// sacreBLEU removes white space at the end before it looks at line ends.
std::string tokens_of(std::string_view sentence) {
  std::string text = internal::repaired_utf8(sentence);
  std::size_t end = 0;
  std::string_view rest = text;
  for (bool valid = true; !rest.empty();) {
    if (!internal::is_white_space(internal::next_character(rest, valid))) end = text.size() - rest.size();
  }
  text.resize(end);
  return tokenize_13a(text);
}

void add_sentence(Counts& counts, const std::string& hypothesis, const std::string& reference) {
  const std::string hypothesis_tokens = tokens_of(hypothesis), reference_tokens = tokens_of(reference);
  const Ngrams ours = ngrams_of(hypothesis_tokens), theirs = ngrams_of(reference_tokens);
  counts.hypothesis_length += ours.words;
  counts.reference_length += theirs.words;
  for (const auto& [ngram, count] : ours.count) {
    const std::size_t order = order_of(ngram) - 1;
    counts.total[order] += count;
    const auto found = theirs.count.find(ngram);
    if (found != theirs.count.end()) counts.correct[order] += std::min(count, found->second);
  }
}

}  // namespace

BleuScore bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  internal::check(hypotheses.size() == references.size(), "bleu: there are ", hypotheses.size(), " hypotheses and ",
                  references.size(), " references, expected as many");
  Counts counts;
  for (std::size_t n = 0; n < hypotheses.size(); ++n) add_sentence(counts, hypotheses[n], references[n]);

  BleuScore result;
  result.precisions.assign(kOrders, 0.0);
  result.hypothesis_length = counts.hypothesis_length;
  result.reference_length = counts.reference_length;
  result.signature = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0";
  const double ratio = static_cast<double>(counts.reference_length) /
                       static_cast<double>(std::max<std::int64_t>(counts.hypothesis_length, 1));
  result.brevity_penalty = counts.hypothesis_length >= counts.reference_length ? 1.0
                           : counts.hypothesis_length == 0                     ? 0.0
                                                                               : std::exp(1.0 - ratio);
  if (std::all_of(counts.correct.begin(), counts.correct.end(), [](std::int64_t c) { return c == 0; })) return result;

  // Exponential smoothing: an order without a match counts as half a match, the next such order as a quarter, ...
  double smoothing = 1.0, log_sum = 0.0;
  for (std::size_t n = 0; n < kOrders && counts.total[n] > 0; ++n) {
    double correct = static_cast<double>(counts.correct[n]);
    if (counts.correct[n] == 0) correct = 1.0 / (smoothing *= 2.0);
    result.precisions[n] = 100.0 * correct / static_cast<double>(counts.total[n]);
  }
  for (const double precision : result.precisions) {
    if (precision == 0.0) return result;  // the corpus has no n-grams of that order
    log_sum += std::log(precision);
  }
  result.score = result.brevity_penalty * std::exp(log_sum / kOrders);
  return result;
}

}  // namespace headway::inline v0

// Corpus chrF, as sacreBLEU computes it.
#include <algorithm>
#include <array>
#include <unordered_map>

#include "base/check.h"
#include "base/utf8.h"
#include "headway/translation_scores.h"

namespace headway::inline v0 {
namespace {

constexpr std::size_t kCharacterOrders = 6;
constexpr double kRecallWeight = 4.0;  // beta^2 with beta = 2

// Sums over a corpus for one order.
struct CharacterCounts {
  std::int64_t hypothesis = 0;
  std::int64_t reference = 0;
  std::int64_t matches = 0;
};

std::u32string without_white_space(const std::string& sentence) {
  std::u32string characters = internal::decode_utf8(sentence);
  std::erase_if(characters, internal::is_white_space);
  return characters;
}

std::unordered_map<std::u32string_view, std::int64_t> ngrams_of(std::u32string_view text, std::size_t order) {
  std::unordered_map<std::u32string_view, std::int64_t> counts;
  for (std::size_t start = 0; start + order <= text.size(); ++start) ++counts[text.substr(start, order)];
  return counts;
}

void add_sentence(std::array<CharacterCounts, kCharacterOrders>& counts, const std::string& hypothesis,
                  const std::string& reference) {
  const std::u32string ours = without_white_space(hypothesis), theirs = without_white_space(reference);
  for (std::size_t order = 1; order <= kCharacterOrders; ++order) {
    CharacterCounts& count = counts[order - 1];
    const auto reference_ngrams = ngrams_of(theirs, order);
    // A reference too short for the order does not count, nor does its hypothesis.
    if (reference_ngrams.empty()) continue;
    count.reference += static_cast<std::int64_t>(theirs.size() - order + 1);
    for (const auto& [ngram, occurrences] : ngrams_of(ours, order)) {
      count.hypothesis += occurrences;
      const auto found = reference_ngrams.find(ngram);
      if (found != reference_ngrams.end()) count.matches += std::min(occurrences, found->second);
    }
  }
}

}  // namespace

ChrfScore chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references) {
  internal::check(hypotheses.size() == references.size(), "chrf: there are ", hypotheses.size(), " hypotheses and ",
                  references.size(), " references, expected as many");
  std::array<CharacterCounts, kCharacterOrders> counts = {};
  for (std::size_t n = 0; n < hypotheses.size(); ++n) add_sentence(counts, hypotheses[n], references[n]);

  ChrfScore result;
  result.signature = "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0";
  double precision = 0.0, recall = 0.0, orders = 0.0;
  for (const CharacterCounts& count : counts) {
    if (count.hypothesis == 0 || count.reference == 0) continue;
    precision += static_cast<double>(count.matches) / static_cast<double>(count.hypothesis);
    recall += static_cast<double>(count.matches) / static_cast<double>(count.reference);
    orders += 1.0;
  }
  if (precision + recall == 0.0) return result;
  precision /= orders;
  recall /= orders;
  result.score = 100.0 * (1.0 + kRecallWeight) * precision * recall / (kRecallWeight * precision + recall);
  return result;
}

}  // namespace headway::inline v0

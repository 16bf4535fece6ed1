// BLEU and chrF, equal to sacreBLEU's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct BleuScore {
  double score = 0.0;                   // 0 .. 100
  std::vector<double> precisions = {};  // of 1- to 4-grams, 0 .. 100
  double brevity_penalty = 0.0;
  std::int64_t hypothesis_length = 0;
  std::int64_t reference_length = 0;
  std::string signature = {};  // sacreBLEU's, as "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"
};
// Corpus BLEU with 13a tokens and exponential smoothing, one reference each.
HEADWAY_API BleuScore bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references);

// The 13a tokens of a sentence, joined by spaces.
HEADWAY_API std::string tokenize_13a(std::string_view sentence);

struct ChrfScore {
  double score = 0.0;  // 0 .. 100
  std::string signature = {};
};
// Corpus chrF2: characters up to 6-grams, no words, recall twice as heavy as precision.
HEADWAY_API ChrfScore chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references);

}  // namespace v0
}  // namespace headway

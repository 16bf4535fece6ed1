// ROUGE, equal to that of the Python package rouge-score.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct RougeScore {
  double precision = 0.0;  // 0 .. 1
  double recall = 0.0;     // 0 .. 1
  double f1 = 0.0;         // 0 .. 1
};
struct RougeScores {
  RougeScore rouge1;   // words
  RougeScore rouge2;   // pairs of neighbouring words
  RougeScore rouge_l;  // the longest common subsequence of words
};
struct RougeOptions {
  bool stemmer = false;  // compares Porter's stems of words with more than three letters
};
// The scores of one text against its reference. Words are runs of ASCII letters and digits in lower case.
HEADWAY_API RougeScores rouge(std::string_view text, std::string_view reference, const RougeOptions& options = {});
// The means over many texts, one reference each.
HEADWAY_API RougeScores rouge(const std::vector<std::string>& texts, const std::vector<std::string>& references,
                              const RougeOptions& options = {});

// The stem of a word in lower case by Porter's rules with the extensions of NLTK, as rouge-score uses them.
HEADWAY_API std::string porter_stem(std::string_view word);

}  // namespace v0
}  // namespace headway

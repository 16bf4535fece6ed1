// Sentence pairs for training a translator: reading, cleaning, splitting.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct TextPair {
  std::string source;
  std::string target;

  bool operator==(const TextPair&) const = default;
};

// Calls body for every pair of a file with one pair per line: source, tab, target, and optionally more fields after
// another tab, which are ignored. The file is plain text, or a .zip with one .txt or .tsv file whose name does not
// begin with "_". Lines end with "\n" or "\r\n"; empty lines are skipped. An Error names the file and the line that has
// no tab or is not UTF-8.
HEADWAY_API void for_each_pair(const std::filesystem::path& file, const std::function<void(TextPair&&)>& body);
// The same for two files in which line n of the second translates line n of the first; empty lines count.
HEADWAY_API void for_each_pair(const std::filesystem::path& sources, const std::filesystem::path& targets,
                               const std::function<void(TextPair&&)>& body);
HEADWAY_API std::vector<TextPair> read_pairs(const std::filesystem::path& file);
HEADWAY_API std::vector<TextPair> read_pairs(const std::filesystem::path& sources,
                                             const std::filesystem::path& targets);

struct CleaningOptions {
  std::int64_t max_characters = 400;  // of either side
  double max_ratio = 4.0;             // longer side's characters / shorter side's, where the longer side has over 20
};
struct CleaningReport {
  std::int64_t kept = 0;
  std::int64_t empty = 0;       // pairs with an empty side
  std::int64_t too_long = 0;    // pairs with a side of more than max_characters
  std::int64_t ratio = 0;       // pairs over max_ratio
  std::int64_t duplicates = 0;  // repetitions of a pair
};
// Cleans the texts (control characters become spaces, runs of spaces become one space, spaces at the ends are removed),
// then removes the pairs that the options refuse. Other white space, such as the no-break space, is kept.
HEADWAY_API CleaningReport clean_pairs(std::vector<TextPair>& pairs, const CleaningOptions& options = {});

struct SplitPairs {
  std::vector<TextPair> training;
  std::vector<TextPair> validation;
  std::vector<TextPair> test;
  std::int64_t components = 0;
};
// Splits pairs so that no sentence of one part is in another part, on either side:
//   1. Pairs that share a sentence, byte for byte and on either side, form one component.
//   2. A component's number is the SHA-256 of its first source sentence in byte order, modulo `modulus`.
//   3. Components of number 0 are the test part, those of number 1 the validation part, all others the training part.
// Pairs keep their order. Clean the pairs before splitting them: sentences that differ in spaces alone then are equal
// and cannot end up in two parts.
HEADWAY_API SplitPairs split_pairs(const std::vector<TextPair>& pairs, std::int64_t modulus = 50);

// Each distinct source sentence once, with its first target; `reverse` swaps source and target first.
HEADWAY_API std::vector<TextPair> distinct_sources(const std::vector<TextPair>& pairs, bool reverse = false);

}  // namespace v0
}  // namespace headway

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

// Calls body for every pair of a tab-separated file (source, target, further fields are left alone), plain or inside a
// .zip (its one .txt or .tsv file that does not begin with "_"), line by line; an Error names the file and the line
// that has no tab or is not UTF-8. Lines end with "\n" or "\r\n"; empty ones are passed over.
HEADWAY_API void for_each_pair(const std::filesystem::path& file, const std::function<void(TextPair&&)>& body);
// The same for two files of which line n of the one translates line n of the other; empty lines count.
HEADWAY_API void for_each_pair(const std::filesystem::path& sources, const std::filesystem::path& targets,
                               const std::function<void(TextPair&&)>& body);
HEADWAY_API std::vector<TextPair> read_pairs(const std::filesystem::path& file);
HEADWAY_API std::vector<TextPair> read_pairs(const std::filesystem::path& sources,
                                             const std::filesystem::path& targets);

struct CleaningOptions {
  std::int64_t max_characters = 400;  // of either side
  double max_ratio = 4.0;             // of the longer side's characters to the shorter's, where the longer has over 20
};
struct CleaningReport {
  std::int64_t kept = 0;
  std::int64_t empty = 0;  // a side without a character
  std::int64_t too_long = 0;
  std::int64_t ratio = 0;
  std::int64_t duplicates = 0;  // the same pair once more
};
// Control characters become spaces, runs of spaces one, ends are trimmed; then pairs go that the options refuse. White
// space of other kinds, as the no-break space, is part of the text and stays.
HEADWAY_API CleaningReport clean_pairs(std::vector<TextPair>& pairs, const CleaningOptions& options = {});

struct SplitPairs {
  std::vector<TextPair> training;
  std::vector<TextPair> validation;
  std::vector<TextPair> test;
  std::int64_t components = 0;
};
// Splits so that no sentence of one part is in another, on either side. Pairs that share a sentence, byte for byte and
// whichever side it stands on, form one component; where the SHA-256 of its alphabetically first source sentence (by
// bytes), as a number, is 0 modulo `modulus` the component belongs to the test part, where it is 1 to validation. Pairs
// keep their order. The usual order is read_pairs, clean_pairs, split_pairs: cleaning before splitting makes equal what
// differs in spaces alone, so that it cannot be on both sides of the cut.
HEADWAY_API SplitPairs split_pairs(const std::vector<TextPair>& pairs, std::int64_t modulus = 50);

// The pairs in which each source sentence comes once, with its first target; `reverse` swaps the sides before.
HEADWAY_API std::vector<TextPair> distinct_sources(const std::vector<TextPair>& pairs, bool reverse = false);

}  // namespace v0
}  // namespace headway

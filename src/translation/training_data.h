// From files of sentence pairs to token ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headway/text_pairs.h"
#include "headway/tokenizer.h"
#include "headway/translation_training.h"
#include "training/batches.h"

namespace headway::inline v0::internal {

struct TrainingData {
  CleaningReport cleaning;
  SplitPairs parts;
  std::string digest;  // SHA-256 of the cleaned pairs in hexadecimal digits; a resumed run must have the same pairs
};
// Reads, cleans and splits the pairs that the config names.
TrainingData read_training_data(const TranslationTrainingConfig& config);

// Learns the joint pieces of both languages from the training part and writes the tokenizer to `directory`. With
// `reuse`, a tokenizer that is there already is loaded instead.
TranslationTokenizer prepare_tokenizer(const TranslationTrainingConfig& config, const std::vector<TextPair>& pairs,
                                       const std::filesystem::path& directory, bool reuse);

// A direction to translate in; `reverse` is from the pairs' target to their source.
struct Direction {
  bool reverse = false;
  std::string from;  // code of the source language
  std::string to;
  std::string tag;  // the code in front of the source: `to`, or "" in a model of one direction
};
std::vector<Direction> directions_of(const TranslationTrainingConfig& config);

// Token ids of the pair's source in this direction.
std::vector<std::int64_t> source_ids(const TranslationTokenizer& tokenizer, const Direction& direction,
                                     const TextPair& pair);
// Token ids of the pair's target in this direction.
std::vector<std::int64_t> target_ids(const TranslationTokenizer& tokenizer, const Direction& direction,
                                     const TextPair& pair);

// The pairs in all directions as examples.
struct EncodedPairs {
  ExampleSet examples;
  std::int64_t left_out = 0;  // examples with more than max_length tokens on a side
};
EncodedPairs encode_pairs(const TranslationTokenizer& tokenizer, const std::vector<Direction>& directions,
                          const std::vector<TextPair>& pairs, std::int64_t max_length);

}  // namespace headway::inline v0::internal

// Validation: the loss and the BLEU of a model on held-out sentences.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/communicator.h"
#include "headway/text_pairs.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"
#include "headway/translation_training.h"
#include "training/batches.h"
#include "translation/training_data.h"

namespace headway::inline v0::internal {

class Validator {
 public:
  struct Options {
    std::int64_t sentences = 0;   // how many of each direction, from the first; 0: all
    std::int64_t max_length = 0;  // in tokens; longer sentences are left out
    std::int64_t batch_tokens = 12000;
  };
  // Uses each distinct source sentence once per direction, with its first translation.
  Validator(const TranslationTokenizer& tokenizer, const std::vector<Direction>& directions,
            const std::vector<TextPair>& pairs, const Options& options);

  // True where a direction has no sentences.
  bool empty() const;
  // The loss, and the BLEU of greedy search, both computed on the model's device. The ranks share the work; every rank
  // has the same result, that of one rank bit by bit.
  ValidationReport run(const TranslationModel& model, std::int64_t step, const Communicator& ranks = {}) const;

 private:
  struct Part {
    std::vector<std::vector<std::int64_t>> sources;  // ids
    std::vector<std::string> references;
  };
  double mean_loss(const TranslationModel& model, const Communicator& ranks) const;
  double bleu_of(const TranslationModel& model, const Part& part, const Communicator& ranks) const;

  TranslationTokenizer tokenizer_;
  std::int64_t batch_tokens_;
  std::vector<Part> parts_;  // one per direction
  ExampleSet examples_;      // of all directions
};

}  // namespace headway::inline v0::internal

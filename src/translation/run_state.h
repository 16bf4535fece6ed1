// The part of a translation run's checkpoint that is text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/translation_training.h"
#include "training/run_settings.h"

namespace headway::inline v0::internal {

struct RunState {
  static constexpr const char* kKind = "translation";

  TranslationTrainingConfig config;
  std::string data_digest;
  FileChecksums tokenizer;    // of the files that it was read from
  std::int64_t parts = 0;     // batches of a step, on all ranks
  std::int64_t averaged = 0;  // how many steps are in the running mean
  std::vector<ValidationReport> validations;
  std::int64_t best_step = 0;  // of the best BLEU; 0: none yet
  double best_score = 0.0;
  std::int64_t without_better = 0;  // validations since then
  bool stopped_early = false;

  std::string to_json() const;
  static RunState from_json(const std::string& text);
  // A validation as one line of JSON without "\n".
  static std::string line_of(const ValidationReport& report);
  // Throws an Error that names the field where a run with `now` cannot continue this one.
  void check_resumable(const TranslationTrainingConfig& now) const;
};

}  // namespace headway::inline v0::internal

// The part of a fine-tuning run's checkpoint that is text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/fine_tuning.h"
#include "training/run_settings.h"

namespace headway::inline v0::internal {

struct FineTuneState {
  static constexpr const char* kKind = "fine-tuning";

  FineTuneConfig config;
  std::string data_digest;
  FileChecksums tokenizer;  // of the files that it was read from
  std::int64_t parts = 0;   // batches of a step, on all ranks
  std::string frozen;       // checksum of the weights that come from config.model and stay; empty: there are none
  std::vector<FineTuneScores> validations;
  std::int64_t best_step = 0;  // of the best score; 0: none yet
  double best_score = 0.0;
  std::int64_t without_better = 0;  // validations since then
  bool stopped_early = false;

  std::string to_json() const;
  static FineTuneState from_json(const std::string& text);
  // A validation as one line of JSON without "\n".
  static std::string line_of(const FineTuneScores& scores);
  // Throws an Error that names the field where a run with `now` cannot continue this one.
  void check_resumable(const FineTuneConfig& now) const;
};

}  // namespace headway::inline v0::internal

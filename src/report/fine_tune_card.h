// The README.md of a fine-tuned model's directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/fine_tuning.h"

namespace headway::inline v0::internal {

// The facts of a run beyond its config.
struct FineTuneFacts {
  std::string family;
  std::string data;  // "10003 texts for training, 3080 for test; 77 labels"
  std::string device;
  std::int64_t parameters = 0;
  std::int64_t trained_parameters = 0;  // those that are not frozen
  std::int64_t last_step = 0;
  std::int64_t saved_step = 0;
  std::string last_change = {};  // a sentence on what was done to the weights after the last step; empty: nothing
};
// Markdown: what the model is, what it was trained on, by which command, how good it is and how to use it.
std::string fine_tune_card(const FineTuneConfig& config, const FineTuneFacts& facts, const FineTuneReport& report);

}  // namespace headway::inline v0::internal

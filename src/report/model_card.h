// The README.md of a model directory.
#pragma once

#include <string>

#include "headway/translation_training.h"
#include "translation/run_state.h"
#include "translation/training_data.h"

namespace headway::inline v0::internal {

struct CardFacts {
  std::int64_t parameters = 0;
  std::int64_t training_pairs = 0;
  std::int64_t last_step = 0;
  std::int64_t saved_step = 0;  // whose weights are in the directory; before the last one where an earlier was better
  std::int64_t averaged = 0;    // steps whose weights were averaged; 0: none
  std::string device = "the CPU";
};
// Markdown: what the model is, what it was trained on, how, how good it is and how to use it.
std::string model_card(const TranslationTrainingConfig& config, const CardFacts& facts,
                       const std::vector<ValidationReport>& validations);

}  // namespace headway::inline v0::internal

// The README.md of a model directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headway/translation_training.h"

namespace headway::inline v0::internal {

// The facts of a run beyond its config.
struct CardFacts {
  std::int64_t parameters = 0;
  std::int64_t training_pairs = 0;
  std::int64_t last_step = 0;
  std::int64_t saved_step = 0;  // whose weights are saved: the last step, or an earlier one that was better
  std::int64_t averaged = 0;    // the number of steps in the mean of the saved weights; 0: they are not averaged
  std::string device = "the CPU";
};
// Markdown: what the model is, what it was trained on, how, how good it is and how to use it.
std::string model_card(const TranslationTrainingConfig& config, const CardFacts& facts,
                       const std::vector<ValidationReport>& validations);

}  // namespace headway::inline v0::internal

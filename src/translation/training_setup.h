// The model, the optimizer and the schedule that a config describes.
#pragma once

#include <cstdint>
#include <memory>

#include "headway/optimizer.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"
#include "headway/translation_training.h"

namespace headway::inline v0::internal {

inline constexpr std::int64_t kPositions = 512;  // of a trained model: the most tokens of a source or a target

// A float32 model on the CPU. Its initial weights follow from the seed alone, for every device and precision; the
// process's random state is unchanged afterwards.
TranslationModel make_model(const TranslationTrainingConfig& config, const TranslationTokenizer& tokenizer);

// AdamW with the betas and epsilon of "Attention Is All You Need". Only matrices have weight decay; biases and norms
// have one dimension.
std::unique_ptr<AdamW> make_optimizer(const TranslationTrainingConfig& config, const TranslationModel& model);

// The learning rate over a run of `steps` steps.
Schedule make_schedule(const TranslationTrainingConfig& config, std::int64_t steps);

}  // namespace headway::inline v0::internal

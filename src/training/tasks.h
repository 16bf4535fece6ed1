// The tasks of fine-tuning, one file each.
#pragma once

#include <memory>

#include "training/training_task.h"

namespace headway::inline v0::internal {

std::unique_ptr<TrainingTask> make_classify_task(const FineTuneConfig& config);
std::unique_ptr<TrainingTask> make_tag_task(const FineTuneConfig& config);
std::unique_ptr<TrainingTask> make_answer_task(const FineTuneConfig& config);
std::unique_ptr<TrainingTask> make_language_model_task(const FineTuneConfig& config);
std::unique_ptr<TrainingTask> make_text_to_text_task(const FineTuneConfig& config);
std::unique_ptr<TrainingTask> make_masked_words_task(const FineTuneConfig& config);

}  // namespace headway::inline v0::internal

// The tokenizer, the model, the optimizer and the schedule that a fine-tuning config describes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "headway/fine_tuning.h"
#include "headway/optimizer.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "training/training_task.h"

namespace headway::inline v0::internal {

// Where the tokenizer is read from: the model's directory, config.tokenizer, or `made` for a new one.
std::filesystem::path tokenizer_directory(const FineTuneConfig& config, const std::filesystem::path& made);
// The tokenizer in `directory`, or a new one, which is kept there. With `reuse`, a new one that is there already is
// loaded.
TextTokenizer prepare_tokenizer(const FineTuneConfig& config, const TrainingTask& task,
                                const std::filesystem::path& directory, bool reuse);

// A float32 model on the CPU whose parameters are its own memory, with the head and the labels of the task. What is new
// follows from the seed alone; the process's random state is unchanged afterwards.
TransformerModel prepare_model(const FineTuneConfig& config, const TrainingTask& task, const TextTokenizer& tokenizer);

// Keeps the weights of embeddings and first layers as they are.
void freeze_parts(const FineTuneConfig& config, const TransformerModel& model);

// AdamW over what is not frozen. Only matrices have weight decay; biases and norms have one dimension.
std::unique_ptr<AdamW> make_optimizer(const FineTuneConfig& config, const TransformerModel& model);

// The learning rate over a run of `steps` steps.
Schedule make_schedule(const FineTuneConfig& config, std::int64_t steps);

}  // namespace headway::inline v0::internal

// A task of fine-tuning: its data, its loss, its scores.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/fine_tuning.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "training/batches.h"

namespace headway::inline v0::internal {

enum class DataPart { training, validation, test };

class TrainingTask {
 public:
  // Reads the files that the config names.
  static std::unique_ptr<TrainingTask> make(const FineTuneConfig& config);
  virtual ~TrainingTask() = default;

  // ---- what the data says, before it is tokenized ----
  virtual HeadKind head() const = 0;
  // Names of the head's classes; empty where it has none.
  virtual std::vector<std::string> labels() const { return {}; }
  // The training texts, for a new tokenizer.
  virtual std::vector<std::string> texts() const = 0;
  virtual bool has(DataPart part) const = 0;
  // SHA-256 of all examples in hexadecimal digits; a resumed run must have the same.
  virtual std::string digest() const = 0;
  // "10003 texts with 77 labels for training, 3080 for test".
  virtual std::string describe() const = 0;

  // ---- tokens ----
  // Tokenizes the training and the validation part, or all parts; `options` are those of the model.
  virtual void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) = 0;
  virtual std::int64_t batches_per_epoch() const = 0;
  // The loss of batch `index`, counted from 0 over all epochs; it follows from (seed, index) alone.
  virtual BatchLoss loss(const TransformerModel& model, std::int64_t index) = 0;
  // The scores of a model in evaluation mode, without gradients.
  virtual FineTuneScores evaluate(const TransformerModel& model, DataPart part) const = 0;
  // A last change of the weights that are saved, which `model` has, by what it makes of the validation part. Gives a
  // sentence for the card, or nothing where the weights stay.
  virtual std::string finish(const TransformerModel& model, StateDict& weights) const;
};

// The most tokens of a text: config.max_length, else what the stack has positions for, at most 512.
std::int64_t longest_text(const FineTuneConfig& config, const StackOptions& stack);
// The token that fills rows up; 0 where the model names none, since padding is never looked at.
std::int64_t padding_of(const TransformerModelOptions& options);
Device device_of(const TransformerModel& model);
// "10003 texts for training, 1000 for validation, 3080 for test"; parts without any are left out.
std::string count_text(std::int64_t training, std::int64_t validation, std::int64_t test, const std::string& noun);
std::string hexadecimal_digest(std::string_view text);

// ---- what the tasks of encoders share: one row of tokens for each example ----

// Tensors of some examples.
struct TokenRows {
  Tensor tokens;                      // [rows, length] int64, on the model's device
  std::vector<std::int64_t> lengths;  // non-padding tokens
  Tensor types;                       // [rows, length] int64; undefined: zeros
  std::int64_t count = 0;             // of non-padding tokens

  ModelInput input() const;
};
TokenRows make_rows(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id,
                    Device device);

// Examples of the parts, each with a batch plan.
class ExampleParts {
 public:
  ExampleSet& of(DataPart part) { return sets_[static_cast<std::size_t>(part)]; }
  const ExampleSet& of(DataPart part) const { return sets_[static_cast<std::size_t>(part)]; }
  // Begins the plan of the training part, once it is complete.
  void plan(const FineTuneConfig& config);
  BatchPlan& training_plan() { return *plan_; }
  const BatchPlan& training_plan() const { return *plan_; }
  // Batches for an evaluation, which cover the part once.
  BatchPlan evaluation_plan(DataPart part) const;

 private:
  ExampleSet sets_[3];
  std::optional<BatchPlan> plan_;
};

}  // namespace headway::inline v0::internal

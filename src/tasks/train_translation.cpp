// train_translation(): from sentence pairs to a model directory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/files.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/translation_training.h"
#include "report/model_card.h"
#include "report/plot.h"
#include "tasks/training_run.h"
#include "training/batches.h"
#include "training/evaluation_copies.h"
#include "training/token_loss.h"
#include "translation/run_state.h"
#include "translation/training_data.h"
#include "translation/training_setup.h"
#include "translation/validation.h"

namespace headway::inline v0 {
namespace internal {
namespace {

namespace fs = std::filesystem;
using Config = TranslationTrainingConfig;

class TranslationRun : public TrainingRun<Config, RunState, TranslationTrainingReport> {
 public:
  TranslationRun(const Config& config, const TranslationRunOptions& options);

 private:
  std::int64_t prepare_data();
  void prepare_weights();
  bool averaging() const { return state_.averaged > 0; }

  BatchLoss loss_of(const BatchPosition& position) override;
  Schedule schedule() const override { return make_schedule(config_, steps_); }
  void after_update(std::int64_t step) override;
  std::int64_t validate_every() const override { return config_.validate_every; }
  std::optional<ValidationReport> validation_of(std::int64_t step) override;
  std::string validation_text(const ValidationReport& report) const override;
  double score_of(const ValidationReport& report) const override { return report.bleu; }
  const char* score_name() const override { return "BLEU"; }
  bool keeps_best() const override { return config_.patience > 0; }
  StateDict weights_now() const override;
  std::string plot() const override { return plot_html(history_, state_.validations, directions_); }
  void write_model(TranslationTrainingReport& report, const fs::path& directory, const StateDict& weights) override;

  std::vector<Direction> directions_;
  std::int64_t training_pairs_ = 0;
  ExampleSet examples_;
  std::optional<BatchPlan> plan_;
  std::optional<TranslationTokenizer> tokenizer_;
  std::optional<Validator> validator_;
  std::optional<TranslationModel> model_;
  EvaluationCopy<TranslationModel> evaluation_copy_;  // of the model
  CpuCopy<TranslationModel> cpu_copy_;                // of the evaluation copy
};

TranslationRun::TranslationRun(const Config& config, const TranslationRunOptions& options)
    : TrainingRun(config, options), directions_(directions_of(config)) {
  const std::int64_t too_long = prepare_data();
  prepare_weights();
  char text[200];
  std::snprintf(text, sizeof(text),
                "%lld examples, %lld too long; %lld batches an epoch, %.1f%% of them padding; %.1f M parameters",
                static_cast<long long>(examples_.size()), static_cast<long long>(too_long),
                static_cast<long long>(plan_->batches_per_epoch()), 100.0 * plan_->padding_share(),
                static_cast<double>(model_->parameter_count()) / 1e6);
  notes_.write(text);
}

// Reads the pairs and builds tokenizer, validator, examples and batches from them. Returns how many examples were left
// out because they have more tokens than the model has positions.
std::int64_t TranslationRun::prepare_data() {
  TrainingData data = read_training_data(config_);
  set_data_digest(data.digest, "pairs");
  training_pairs_ = std::ssize(data.parts.training);
  notes_.write(
      std::to_string(data.cleaning.kept) + " pairs kept, " +
      std::to_string(data.cleaning.empty + data.cleaning.too_long + data.cleaning.ratio + data.cleaning.duplicates) +
      " left out; " + std::to_string(training_pairs_) + " for training, " +
      std::to_string(data.parts.validation.size()) + " for validation, " + std::to_string(data.parts.test.size()) +
      " for test");

  check_tokenizer(directory_ / "tokenizer");
  tokenizer_ = made_by_first(
      [&](bool reuse) { return prepare_tokenizer(config_, data.parts.training, directory_ / "tokenizer", reuse); });
  set_tokenizer(directory_ / "tokenizer");
  validator_.emplace(
      *tokenizer_, directions_, data.parts.validation,
      Validator::Options{
          .sentences = config_.validate_sentences, .max_length = kPositions, .batch_tokens = config_.batch_tokens});
  check(!validator_->empty() || config_.patience == 0, "patience is ", config_.patience, ", and data ",
        config_.data.string(), " gives no validation sentences; expected 0");
  EncodedPairs encoded = encode_pairs(*tokenizer_, directions_, data.parts.training, kPositions);
  examples_ = std::move(encoded.examples);
  plan_.emplace(examples_, config_.batch_tokens, config_.seed);
  const std::int64_t batches = config_.epochs * plan_->batches_per_epoch();
  steps_ = (batches + state_.parts - 1) / state_.parts;
  if (config_.max_steps > 0) steps_ = std::min(steps_, config_.max_steps);
  return encoded.left_out;
}

// Makes the model and its optimizer.
void TranslationRun::prepare_weights() {
  model_.emplace(make_model(config_, *tokenizer_));
  const StateDict initial = model_->state_dict();
  model_->to(Device::parse(config_.device));
  model_->to(config_.precision);
  weights_.emplace(*model_, TrainedWeights::Parts{.mean = config_.average_last > 0.0, .best = keeps_best()});
  optimizer_ = make_optimizer(config_, *model_);
  // The master weights start with the digits that bfloat16 lacks: without them, weights of one size would all reach the
  // next 16-bit number in the same step, and the loss would jump.
  begin_weights(initial);
}

BatchLoss TranslationRun::loss_of(const BatchPosition& position) {
  const std::int64_t pad = tokenizer_->pad_id();
  const PairBatch batch = make_batch(examples_, plan_->members(position.index), pad);
  const Tensor logits =
      model_->forward({.source = batch.source, .source_lengths = batch.source_lengths, .target = batch.target}).logits;
  return token_loss(logits, batch.labels, batch.tokens,
                    {.ignore_index = pad, .label_smoothing = config_.label_smoothing});
}

// Adds the last part of the steps to the running mean.
void TranslationRun::after_update(std::int64_t step) {
  const auto averaged_steps = static_cast<std::int64_t>(std::ceil(config_.average_last * static_cast<double>(steps_)));
  if (step > steps_ - averaged_steps) {
    weights_->mean().add_to_mean(optimizer_->master_weights(), ++state_.averaged);
  } else {
    state_.averaged = 0;
  }
}

// The running mean, or the master weights before it begins.
StateDict TranslationRun::weights_now() const {
  return averaging() ? weights_->mean().state_dict() : optimizer_->master_weights();
}

std::optional<ValidationReport> TranslationRun::validation_of(std::int64_t step) {
  if (validator_->empty()) return {};
  return validator_->run(evaluation_copy_.of(*model_, weights_now()), step, options_.ranks);
}

std::string TranslationRun::validation_text(const ValidationReport& report) const {
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers), "loss %.4f, BLEU %.2f", report.loss, report.bleu);
  std::string text = numbers;
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    std::snprintf(numbers, sizeof(numbers), " %.2f", report.directions[i]);
    text += (i == 0 ? " (" : ", ") + directions_[i].from + " to " + directions_[i].to + numbers;
  }
  return text + ")";
}

void TranslationRun::write_model(TranslationTrainingReport& report, const fs::path& directory,
                                 const StateDict& weights) {
  CardFacts facts{.parameters = model_->parameter_count(), .training_pairs = training_pairs_};
  facts.last_step = facts.saved_step = report.training.last_step;
  facts.averaged = state_.averaged;
  facts.device = device_text(config_.device);
  if (keeps_best() && state_.best_step > 0) facts.saved_step = state_.best_step;
  const TranslationModel& model = evaluation_copy_.of(*model_, weights);
  tokenizer_->save(directory);
  cpu_copy_.of(model).save(directory, config_.weights);
  replace_file(directory / "training_config.json", config_.to_json());
  replace_file(directory / "README.md", model_card(config_, facts, state_.validations));
}

}  // namespace
}  // namespace internal

TranslationTrainingReport train_translation(const TranslationTrainingConfig& config,
                                            const TranslationRunOptions& options) {
  return internal::ending_all(options.ranks, [&] {
    config.check();
    return internal::TranslationRun(config, options).run();
  });
}

}  // namespace headway::inline v0

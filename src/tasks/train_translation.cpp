// train_translation(): from sentence pairs to a model directory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/directory_lock.h"
#include "base/files.h"
#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/optimizer.h"
#include "headway/translation_training.h"
#include "report/history.h"
#include "report/model_card.h"
#include "report/plot.h"
#include "training/batches.h"
#include "training/evaluation_copies.h"
#include "training/run_texts.h"
#include "training/trained_weights.h"
#include "translation/run_state.h"
#include "translation/training_data.h"
#include "translation/training_setup.h"
#include "translation/validation.h"

namespace headway::inline v0 {
namespace internal {
namespace {

namespace fs = std::filesystem;
using Config = TranslationTrainingConfig;

// A run: what is built before the first step, and what is done between steps.
class TranslationRun {
 public:
  TranslationRun(const Config& config, const TranslationRunOptions& options);

  TranslationTrainingReport run();

 private:
  void resume();
  std::int64_t prepare_data();
  void prepare_weights();
  TrainingOptions training_options();
  BatchLoss loss_of(const BatchPosition& position);
  void after_step(const StepReport& report);
  void validate(std::int64_t step);
  void report_validation(const ValidationReport& report) const;
  void update_best(const ValidationReport& report);
  void write_history() const;
  void write_model(const TrainingReport& report);
  bool averaging() const { return state_.averaged > 0; }
  StateDict weights_now() const;

  Config config_;
  const TranslationRunOptions& options_;
  fs::path directory_;  // of checkpoints, log, plot
  DirectoryLock lock_;
  RunNotes notes_;
  RunState state_;
  std::int64_t resumed_step_ = 0;
  History history_;
  std::vector<Direction> directions_;
  std::int64_t training_pairs_ = 0;
  std::int64_t steps_ = 0;
  ExampleSet examples_;
  std::optional<BatchPlan> plan_;
  std::optional<TranslationTokenizer> tokenizer_;
  std::optional<Validator> validator_;
  std::optional<TranslationModel> model_;
  std::optional<TrainedWeights> weights_;
  std::unique_ptr<AdamW> optimizer_;
  EvaluationCopy<TranslationModel> evaluation_copy_;  // of the model
  CpuCopy<TranslationModel> cpu_copy_;                // of the evaluation copy
};

TranslationRun::TranslationRun(const Config& config, const TranslationRunOptions& options)
    : config_(config),
      options_(options),
      directory_(config.output / "training"),
      lock_(config.output, {}, "another run is training there"),
      notes_(options.progress),
      directions_(directions_of(config)) {
  resume();
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

// Restores the state of an earlier run, before any of its files is changed.
void TranslationRun::resume() {
  const std::optional<Checkpoint> checkpoint = load_checkpoint(directory_);
  if (!checkpoint) return;
  check(options_.resume, directory_.string(), " holds the checkpoint of step ", checkpoint->step,
        " of another run; resume it, remove the directory or name another output");
  state_ = RunState::from_json(checkpoint->state);
  check_resumable(config_, state_.config);
  resumed_step_ = checkpoint->step;
  history_ = History::load(directory_ / "training.jsonl", resumed_step_);
}

// Reads the pairs and builds tokenizer, validator, examples and batches from them. Returns how many examples were left
// out because they have more tokens than the model has positions.
std::int64_t TranslationRun::prepare_data() {
  TrainingData data = read_training_data(config_);
  check(resumed_step_ == 0 || data.digest == state_.data_digest, config_.data.string(),
        " has changed since the checkpoint of step ", resumed_step_, " was made; resuming wants the same pairs");
  state_.config = config_;
  state_.data_digest = data.digest;
  training_pairs_ = std::ssize(data.parts.training);
  notes_.write(
      std::to_string(data.cleaning.kept) + " pairs kept, " +
      std::to_string(data.cleaning.empty + data.cleaning.too_long + data.cleaning.ratio + data.cleaning.duplicates) +
      " left out; " + std::to_string(training_pairs_) + " for training, " +
      std::to_string(data.parts.validation.size()) + " for validation, " + std::to_string(data.parts.test.size()) +
      " for test");

  tokenizer_ = prepare_tokenizer(config_, data.parts.training, directory_ / "tokenizer", resumed_step_ > 0);
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
  steps_ = (batches + config_.accumulate - 1) / config_.accumulate;
  if (config_.max_steps > 0) steps_ = std::min(steps_, config_.max_steps);
  return encoded.left_out;
}

// Makes the model and its optimizer.
void TranslationRun::prepare_weights() {
  model_.emplace(make_model(config_, *tokenizer_));
  const StateDict initial = model_->state_dict();
  model_->to(Device::parse(config_.device));
  model_->to(config_.precision);
  weights_.emplace(*model_, TrainedWeights::Parts{.mean = config_.average_last > 0.0, .best = config_.patience > 0});
  optimizer_ = make_optimizer(config_, *model_);
  // The master weights start with the digits that bfloat16 lacks: without them, weights of one size would all reach the
  // next 16-bit number in the same step, and the loss would jump.
  optimizer_->load_master_weights(initial);
}

TranslationTrainingReport TranslationRun::run() {
  // A resumed run that had stopped early takes no more steps and writes its model again.
  if (state_.stopped_early) steps_ = resumed_step_;
  const TrainingOptions options = training_options();
  TranslationTrainingReport report;
  if (options_.should_stop && options_.should_stop()) {  // asked to stop while the data was read
    report.training.stopped = true;
    report.training.last_step = resumed_step_;
    report.validations = state_.validations;
    return report;
  }
  notes_.begin_steps();
  report.training = train(
      *weights_, *optimizer_, make_schedule(config_, steps_),
      [this](const BatchPosition& position) { return loss_of(position); }, options);
  report.validations = state_.validations;
  report.finished = report.training.last_step >= steps_ || state_.stopped_early;
  write_history();
  if (report.finished) write_model(report.training);
  return report;
}

TrainingOptions TranslationRun::training_options() {
  TrainingOptions options = run_options(config_, steps_, options_);
  options.on_step = [this](const StepReport& report) { after_step(report); };
  options.should_stop = [this] { return state_.stopped_early || (options_.should_stop && options_.should_stop()); };
  options.save_state = [this] { return state_.to_json(); };
  return options;
}

BatchLoss TranslationRun::loss_of(const BatchPosition& position) {
  const std::int64_t pad = tokenizer_->pad_id();
  const PairBatch batch = make_batch(examples_, plan_->members(position.index), pad);
  const Tensor logits =
      model_->forward({.source = batch.source, .source_lengths = batch.source_lengths, .target = batch.target}).logits;
  return {
      .loss = cross_entropy(logits, batch.labels, {.ignore_index = pad, .label_smoothing = config_.label_smoothing}),
      .tokens = batch.tokens};
}

void TranslationRun::after_step(const StepReport& report) {
  history_.add(report);
  const auto averaged_steps = static_cast<std::int64_t>(std::ceil(config_.average_last * static_cast<double>(steps_)));
  if (report.step > steps_ - averaged_steps) {
    weights_->mean().add_to_mean(optimizer_->master_weights(), ++state_.averaged);
  } else {
    state_.averaged = 0;
  }
  if (report.step % config_.validate_every == 0 || report.step == steps_) validate(report.step);
}

// The weights that would be saved if the run ended here: the running mean, or the master weights before it begins.
// Float32 in every precision.
StateDict TranslationRun::weights_now() const {
  return averaging() ? weights_->mean().state_dict() : optimizer_->master_weights();
}

void TranslationRun::validate(std::int64_t step) {
  if (!validator_->empty()) {
    const TranslationModel& model = evaluation_copy_.of(*model_, weights_now());
    state_.validations.push_back(validator_->run(model, step));
    report_validation(state_.validations.back());
    update_best(state_.validations.back());
  }
  write_history();
}

void TranslationRun::report_validation(const ValidationReport& report) const {
  std::string text = "step " + std::to_string(report.step);
  char numbers[96];
  std::snprintf(numbers, sizeof(numbers), ": validation loss %.4f, BLEU %.2f", report.loss, report.bleu);
  text += numbers;
  for (std::size_t i = 0; i < directions_.size(); ++i) {
    std::snprintf(numbers, sizeof(numbers), " %.2f", report.directions[i]);
    text += (i == 0 ? " (" : ", ") + directions_[i].from + " to " + directions_[i].to + numbers;
  }
  notes_.write(text + ")");
}

// Early stopping: keeps the best weights, and ends the run after `patience` validations without better ones.
void TranslationRun::update_best(const ValidationReport& report) {
  if (state_.best_step == 0 || report.bleu > state_.best_bleu) {
    state_.best_step = report.step;
    state_.best_bleu = report.bleu;
    state_.without_better = 0;
    if (config_.patience > 0) weights_->best().load_state_dict(weights_now());
  } else if (++state_.without_better >= config_.patience && config_.patience > 0) {
    state_.stopped_early = true;
    notes_.write("no better BLEU in " + std::to_string(state_.without_better) + " validations: stopping early");
  }
}

// Writes the history of the run so far: the validations and the plot.
void TranslationRun::write_history() const {
  std::string lines;
  for (const ValidationReport& report : state_.validations) lines += validation_line(report) + "\n";
  replace_file(directory_ / "validation.jsonl", lines);
  replace_file(directory_ / "plot.html", plot_html(history_, state_.validations, directions_));
}

void TranslationRun::write_model(const TrainingReport& report) {
  CardFacts facts{.parameters = model_->parameter_count(), .training_pairs = training_pairs_};
  facts.last_step = facts.saved_step = report.last_step;
  facts.averaged = state_.averaged;
  facts.device = device_text(config_.device);
  const bool best = config_.patience > 0 && state_.best_step > 0;
  if (best) facts.saved_step = state_.best_step;
  const TranslationModel& model = evaluation_copy_.of(*model_, best ? weights_->best().state_dict() : weights_now());
  tokenizer_->save(config_.output);
  cpu_copy_.of(model).save(config_.output, config_.weights);
  replace_file(config_.output / "training_config.json", config_.to_json());
  replace_file(config_.output / "README.md", model_card(config_, facts, state_.validations));
}

}  // namespace
}  // namespace internal

TranslationTrainingReport train_translation(const TranslationTrainingConfig& config,
                                            const TranslationRunOptions& options) {
  config.check();
  return internal::TranslationRun(config, options).run();
}

}  // namespace headway::inline v0

// fine_tune(): from texts to a model directory.
#include <cstdio>
#include <memory>
#include <optional>

#include "base/check.h"
#include "base/files.h"
#include "headway/autograd.h"
#include "headway/fine_tuning.h"
#include "nn/evaluation_guard.h"
#include "report/fine_tune_card.h"
#include "report/plot.h"
#include "tasks/training_run.h"
#include "training/evaluation_copies.h"
#include "training/fine_tune_fields.h"
#include "training/fine_tune_state.h"
#include "training/model_setup.h"
#include "training/run_texts.h"
#include "training/training_task.h"

namespace headway::inline v0 {
namespace internal {
namespace {

namespace fs = std::filesystem;

std::string scores_text(const FineTuneScores& scores) {
  char number[64];
  std::snprintf(number, sizeof(number), "loss %.4f", scores.loss);
  std::string text = number;
  for (const NamedScore& score : scores.scores) {
    std::snprintf(number, sizeof(number), " %.2f", score.value);
    text += ", " + score.name + number;
  }
  return text;
}

class FineTuneRun : public TrainingRun<FineTuneConfig, FineTuneState, FineTuneReport> {
 public:
  FineTuneRun(const FineTuneConfig& config, const TrainingRunOptions& options);

 private:
  void prepare();
  void set_frozen();
  FineTuneScores evaluate(const StateDict& weights, DataPart part, std::int64_t step);
  std::string finish(StateDict& weights, FineTuneReport& report);

  BatchLoss loss_of(const BatchPosition& position) override { return task_->loss(*model_, position.index); }
  Schedule schedule() const override { return make_schedule(config_, steps_); }
  std::int64_t validate_every() const override { return validate_every_; }
  std::optional<FineTuneScores> validation_of(std::int64_t step) override;
  std::string validation_text(const FineTuneScores& scores) const override { return scores_text(scores); }
  double score_of(const FineTuneScores& scores) const override { return scores.score; }
  const char* score_name() const override { return "score"; }
  bool keeps_best() const override {
    return (config_.keep_best || config_.patience > 0) && task_->has(DataPart::validation);
  }
  StateDict weights_now() const override;
  std::string plot() const override { return plot_html(history_, state_.validations); }
  void write_model(FineTuneReport& report, const fs::path& directory, const StateDict& final_weights) override;

  std::int64_t validate_every_ = 0;
  std::unique_ptr<TrainingTask> task_;
  std::optional<TextTokenizer> tokenizer_;
  std::optional<TransformerModel> model_;
  StateDict initial_;                                 // float32 weights at the beginning, of which frozen ones stay
  EvaluationCopy<TransformerModel> evaluation_copy_;  // of the model
  CpuCopy<TransformerModel> cpu_copy_;                // of the evaluation copy
};

FineTuneRun::FineTuneRun(const FineTuneConfig& config, const TrainingRunOptions& options)
    : TrainingRun(config, options), task_(TrainingTask::make(config)) {
  const bool by_token = task_->head() == HeadKind::language_model || task_->head() == HeadKind::tokens;
  check(options.context_parallel == 1 || by_token, "context_parallel is ", options.context_parallel,
        ", and the task has one answer for each text; expected a task with a loss for every token");
  notes_.write(task_->describe());
  set_data_digest(task_->digest(), "examples");
  prepare();
}

// Makes tokenizer, model, batches and optimizer.
void FineTuneRun::prepare() {
  const fs::path tokenizer = tokenizer_directory(config_, directory_ / "tokenizer");
  check_tokenizer(tokenizer);
  tokenizer_ = made_by_first([&](bool reuse) { return prepare_tokenizer(config_, *task_, tokenizer, reuse); });
  set_tokenizer(tokenizer);
  model_ = prepare_model(config_, *task_, *tokenizer_);
  task_->encode(*tokenizer_, model_->options());
  const std::int64_t per_epoch = (task_->batches_per_epoch() + state_.parts - 1) / state_.parts;
  steps_ = (config_.epochs * task_->batches_per_epoch() + state_.parts - 1) / state_.parts;
  if (config_.steps > 0) steps_ = config_.steps;
  validate_every_ = config_.validate_every > 0 ? config_.validate_every : per_epoch;

  for (const NamedTensor& parameter : model_->named_parameters()) initial_[parameter.name] = parameter.tensor;
  model_->to(Device::parse(config_.device));
  model_->to(config_.precision);
  freeze_parts(config_, *model_);
  if (!config_.model.empty()) set_frozen();
  weights_.emplace(*model_, TrainedWeights::Parts{.mean = false, .best = keeps_best()});
  optimizer_ = make_optimizer(config_, *model_);
  // The master weights start with the digits that bfloat16 lacks.
  begin_weights(initial_);
  char text[160];
  std::snprintf(text, sizeof(text), "%lld batches an epoch, %lld steps; %.1f M parameters",
                static_cast<long long>(task_->batches_per_epoch()), static_cast<long long>(steps_),
                static_cast<double>(model_->parameter_count()) / 1e6);
  notes_.write(text);
}

// Compares the weights that are not trained, and so are read anew, with those that the resumed run was begun with.
void FineTuneRun::set_frozen() {
  StateDict frozen;
  for (const NamedTensor& parameter : model_->named_parameters()) {
    if (!parameter.tensor.requires_grad()) frozen[parameter.name] = initial_.at(parameter.name);
  }
  const std::string checksum = tensors_checksum(frozen);
  check(state_.frozen.empty() || checksum == state_.frozen, config_.model.string(),
        ": has other weights than the model that the run was begun with: the checksum of the frozen ones is ", checksum,
        ", expected ", state_.frozen);
  state_.frozen = checksum;
}

StateDict FineTuneRun::weights_now() const {
  StateDict weights = initial_;
  for (const auto& [name, tensor] : optimizer_->master_weights()) weights.insert_or_assign(name, tensor);
  return weights;
}

FineTuneScores FineTuneRun::evaluate(const StateDict& weights, DataPart part, std::int64_t step) {
  const TransformerModel& model = evaluation_copy_.of(*model_, weights);
  const NoGradGuard no_gradients;
  const EvaluationGuard evaluation(model);
  FineTuneScores scores = task_->evaluate(model, part);
  scores.step = step;
  return scores;
}

std::optional<FineTuneScores> FineTuneRun::validation_of(std::int64_t step) {
  if (!task_->has(DataPart::validation)) return {};
  const StateDict weights = weights_now();
  if (!is_first()) return FineTuneScores{};
  return evaluate(weights, DataPart::validation, step);
}

// The task's last change of the weights; the report has the validation's scores after it.
std::string FineTuneRun::finish(StateDict& weights, FineTuneReport& report) {
  std::string change;
  {
    const TransformerModel& model = evaluation_copy_.of(*model_, weights);
    const NoGradGuard no_gradients;
    const EvaluationGuard evaluation(model);
    change = task_->finish(model, weights);
  }
  if (change.empty()) return change;
  notes_.write(change);
  for (FineTuneScores& scores : report.validations) {
    if (scores.step == report.saved_step) scores = evaluate(weights, DataPart::validation, scores.step);
  }
  return change;
}

void FineTuneRun::write_model(FineTuneReport& report, const fs::path& directory, const StateDict& final_weights) {
  const bool best = keeps_best() && state_.best_step > 0;
  StateDict weights = final_weights;
  report.saved_step = best ? state_.best_step : report.training.last_step;
  const std::string last_change = finish(weights, report);
  if (task_->has(DataPart::test)) {
    report.test.push_back(evaluate(weights, DataPart::test, report.saved_step));
    notes_.write("test: " + scores_text(report.test.front()));
  }
  FineTuneFacts facts{.family = model_->family(), .data = task_->describe(), .device = device_text(config_.device)};
  facts.parameters = model_->parameter_count();
  for (const NamedTensor& parameter : optimizer_->parameters())
    facts.trained_parameters += parameter.tensor.element_count();
  facts.last_step = report.training.last_step;
  facts.last_change = last_change;
  facts.saved_step = report.saved_step;
  tokenizer_->save(directory);
  cpu_copy_.of(evaluation_copy_.of(*model_, weights)).save(directory, config_.weights);
  replace_file(directory / "training_config.json", config_.to_json());
  replace_file(directory / "README.md", fine_tune_card(config_, facts, report));
}

}  // namespace
}  // namespace internal

FineTuneReport fine_tune(const FineTuneConfig& config, const TrainingRunOptions& options) {
  return internal::ending_all(options.ranks, [&] {
    config.check();
    return internal::FineTuneRun(config, options).run();
  });
}

}  // namespace headway::inline v0

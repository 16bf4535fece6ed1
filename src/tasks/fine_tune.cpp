// fine_tune(): from texts to a model directory.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <ostream>

#include "base/check.h"
#include "base/directory_lock.h"
#include "base/files.h"
#include "base/terminal.h"
#include "headway/autograd.h"
#include "headway/fine_tuning.h"
#include "nn/evaluation_guard.h"
#include "report/fine_tune_card.h"
#include "report/history.h"
#include "report/plot.h"
#include "training/evaluation_copies.h"
#include "training/fine_tune_fields.h"
#include "training/fine_tune_state.h"
#include "training/model_setup.h"
#include "training/run_texts.h"
#include "training/trained_weights.h"
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

// A run: what is built before the first step, and what is done between steps.
class FineTuneRun {
 public:
  FineTuneRun(const FineTuneConfig& config, const TrainingRunOptions& options);

  FineTuneReport run();

 private:
  void resume();
  void prepare();
  TrainingOptions training_options();
  void after_step(const StepReport& report);
  FineTuneScores evaluate(const StateDict& weights, DataPart part, std::int64_t step);
  void validate(std::int64_t step);
  void update_best(const FineTuneScores& scores);
  void write_history() const;
  std::string finish(StateDict& weights, FineTuneReport& report);
  void write_model(FineTuneReport& report);
  StateDict weights_now() const;
  bool keeps_best() const { return (config_.keep_best || config_.patience > 0) && task_->has(DataPart::validation); }

  FineTuneConfig config_;
  const TrainingRunOptions& options_;
  fs::path directory_;  // of checkpoints, log, plot
  DirectoryLock lock_;
  RunNotes notes_;
  FineTuneState state_;
  std::int64_t resumed_step_ = 0;
  History history_;
  std::int64_t steps_ = 0;
  std::int64_t validate_every_ = 0;
  std::unique_ptr<TrainingTask> task_;
  std::optional<TextTokenizer> tokenizer_;
  std::optional<TransformerModel> model_;
  StateDict initial_;  // float32 weights at the beginning, of which frozen ones stay
  std::optional<TrainedWeights> weights_;
  std::unique_ptr<AdamW> optimizer_;
  EvaluationCopy<TransformerModel> evaluation_copy_;  // of the model
  CpuCopy<TransformerModel> cpu_copy_;                // of the evaluation copy
};

FineTuneRun::FineTuneRun(const FineTuneConfig& config, const TrainingRunOptions& options)
    : config_(config),
      options_(options),
      directory_(config.output / "training"),
      lock_(config.output, {}, "another run is training there"),
      notes_(options.progress) {
  resume();
  task_ = TrainingTask::make(config_);
  notes_.write(task_->describe());
  const std::string digest = task_->digest();
  check(resumed_step_ == 0 || digest == state_.data_digest, config_.data.string(),
        " has changed since the checkpoint of step ", resumed_step_, " was made; resuming wants the same examples");
  state_.config = config_;
  state_.data_digest = digest;
  prepare();
}

// Restores the state of an earlier run, before any of its files is changed.
void FineTuneRun::resume() {
  const std::optional<Checkpoint> checkpoint = load_checkpoint(directory_);
  if (!checkpoint) return;
  check(options_.resume, directory_.string(), " holds the checkpoint of step ", checkpoint->step,
        " of another run; resume it, remove the directory or name another output");
  state_ = FineTuneState::from_json(checkpoint->state);
  fine_tune_table().check_resumable(config_, state_.config);
  check((config_.patience > 0 || config_.keep_best) == (state_.config.patience > 0 || state_.config.keep_best),
        "patience is ", config_.patience, ", and the checkpoints were made with ", state_.config.patience,
        "; early stopping cannot be switched on or off in between");
  resumed_step_ = checkpoint->step;
  history_ = History::load(directory_ / "training.jsonl", resumed_step_);
}

// Makes tokenizer, model, batches and optimizer.
void FineTuneRun::prepare() {
  tokenizer_ = prepare_tokenizer(config_, *task_, directory_ / "tokenizer", resumed_step_ > 0);
  model_ = prepare_model(config_, *task_, *tokenizer_);
  task_->encode(*tokenizer_, model_->options());
  const std::int64_t per_epoch = (task_->batches_per_epoch() + config_.accumulate - 1) / config_.accumulate;
  steps_ = (config_.epochs * task_->batches_per_epoch() + config_.accumulate - 1) / config_.accumulate;
  if (config_.steps > 0) steps_ = config_.steps;
  validate_every_ = config_.validate_every > 0 ? config_.validate_every : per_epoch;

  for (const NamedTensor& parameter : model_->named_parameters()) initial_[parameter.name] = parameter.tensor;
  model_->to(Device::parse(config_.device));
  model_->to(config_.precision);
  freeze_parts(config_, *model_);
  weights_.emplace(*model_, TrainedWeights::Parts{.mean = false, .best = keeps_best()});
  optimizer_ = make_optimizer(config_, *model_);
  // The master weights start with the digits that bfloat16 lacks.
  optimizer_->load_master_weights(initial_);
  char text[160];
  std::snprintf(text, sizeof(text), "%lld batches an epoch, %lld steps; %.1f M parameters",
                static_cast<long long>(task_->batches_per_epoch()), static_cast<long long>(steps_),
                static_cast<double>(model_->parameter_count()) / 1e6);
  notes_.write(text);
}

FineTuneReport FineTuneRun::run() {
  // A resumed run that had stopped early takes no more steps and writes its model again.
  if (state_.stopped_early) steps_ = resumed_step_;
  FineTuneReport report;
  if (options_.should_stop && options_.should_stop()) {  // asked to stop while the data was read
    report.training.stopped = true;
    report.training.last_step = resumed_step_;
    report.validations = state_.validations;
    return report;
  }
  notes_.begin_steps();
  report.training = train(
      *weights_, *optimizer_, make_schedule(config_, steps_),
      [this](const BatchPosition& position) { return task_->loss(*model_, position.index); }, training_options());
  report.validations = state_.validations;
  report.finished = report.training.last_step >= steps_ || state_.stopped_early;
  write_history();
  if (report.finished) write_model(report);
  return report;
}

TrainingOptions FineTuneRun::training_options() {
  TrainingOptions options = run_options(config_, steps_, options_);
  options.on_step = [this](const StepReport& report) { after_step(report); };
  options.should_stop = [this] { return state_.stopped_early || (options_.should_stop && options_.should_stop()); };
  options.save_state = [this] { return state_.to_json(); };
  return options;
}

void FineTuneRun::after_step(const StepReport& report) {
  history_.add(report);
  if (report.step % validate_every_ == 0 || report.step == steps_) validate(report.step);
}

// The float32 weights that would be saved if the run ended here.
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

void FineTuneRun::validate(std::int64_t step) {
  if (task_->has(DataPart::validation)) {
    state_.validations.push_back(evaluate(weights_now(), DataPart::validation, step));
    notes_.write("step " + std::to_string(step) + ": validation " + scores_text(state_.validations.back()));
    update_best(state_.validations.back());
  }
  write_history();
}

// Keeps the best weights, and ends the run after `patience` validations without better ones.
void FineTuneRun::update_best(const FineTuneScores& scores) {
  if (state_.best_step == 0 || scores.score > state_.best_score) {
    state_.best_step = scores.step;
    state_.best_score = scores.score;
    state_.without_better = 0;
    if (keeps_best()) weights_->best().load_state_dict(weights_now());
    return;
  }
  ++state_.without_better;
  if (config_.patience == 0 || state_.without_better < config_.patience) return;
  state_.stopped_early = true;
  notes_.write("no better score in " + std::to_string(state_.without_better) + " validations: stopping early");
}

// Writes the history of the run so far: the validations and the plot.
void FineTuneRun::write_history() const {
  std::string lines;
  for (const FineTuneScores& scores : state_.validations) lines += scores_line(scores) + "\n";
  replace_file(directory_ / "validation.jsonl", lines);
  replace_file(directory_ / "plot.html", plot_html(history_, state_.validations));
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

void FineTuneRun::write_model(FineTuneReport& report) {
  const bool best = keeps_best() && state_.best_step > 0;
  StateDict weights = best ? weights_->best().state_dict() : weights_now();
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
  tokenizer_->save(config_.output);
  cpu_copy_.of(evaluation_copy_.of(*model_, weights)).save(config_.output, config_.weights);
  replace_file(config_.output / "training_config.json", config_.to_json());
  replace_file(config_.output / "README.md", fine_tune_card(config_, facts, report));
}

}  // namespace
}  // namespace internal

FineTuneReport fine_tune(const FineTuneConfig& config, const TrainingRunOptions& options) {
  config.check();
  return internal::FineTuneRun(config, options).run();
}

}  // namespace headway::inline v0

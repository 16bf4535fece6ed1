// What runs from files to a model directory share: resuming, the loop, the best weights, the history.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/check.h"
#include "base/directory_lock.h"
#include "base/files.h"
#include "base/staged_files.h"
#include "headway/optimizer.h"
#include "headway/training.h"
#include "report/history.h"
#include "train/rank_runs.h"
#include "training/run_settings.h"
#include "training/run_texts.h"
#include "training/trained_weights.h"

namespace headway::inline v0::internal {

// A run: what is built before the first step, and what is done between steps. State is RunState or FineTuneState; its
// validations are of the type that the functions below take.
template <typename Config, typename State, typename Report>
class TrainingRun {
 public:
  using Validation = typename decltype(State::validations)::value_type;

  virtual ~TrainingRun() = default;
  TrainingRun(const TrainingRun&) = delete;
  TrainingRun& operator=(const TrainingRun&) = delete;

  Report run();

 protected:
  // Restores the state of an earlier run, before any of its files is changed.
  TrainingRun(const Config& config, const TrainingRunOptions& options);

  // Compares the tokenizer's files with those that the resumed run was begun with, before they are read and where they
  // were made anew.
  void check_tokenizer(const std::filesystem::path& directory);
  void set_tokenizer(const std::filesystem::path& directory);
  // Calls make(reuse) on rank 0, then with `reuse` on the others, which find what it has written.
  template <typename Make>
  auto made_by_first(const Make& make) const {
    if (!is_first()) options_.ranks.barrier();
    auto made = make(resumed_step_ > 0 || !is_first());
    if (is_first()) options_.ranks.barrier();
    return made;
  }
  // Makes the optimizer's state start from `initial`, of which each rank keeps its share.
  void begin_weights(const StateDict& initial);
  bool is_first() const { return options_.ranks.rank() == 0; }
  // Compares the data with that of the run which is resumed; `what` is "pairs" or "examples".
  void set_data_digest(const std::string& digest, const char* what);

  virtual BatchLoss loss_of(const BatchPosition& position) = 0;
  virtual Schedule schedule() const = 0;
  // Called after every step, before it is validated.
  virtual void after_update(std::int64_t /*step*/) {}
  virtual std::int64_t validate_every() const = 0;
  // Nothing where there is no validation part. Every rank is asked, and rank 0's answer counts.
  virtual std::optional<Validation> validation_of(std::int64_t step) = 0;
  virtual std::string validation_text(const Validation& validation) const = 0;
  // What makes a validation better than another, and its name in messages.
  virtual double score_of(const Validation& validation) const = 0;
  virtual const char* score_name() const = 0;
  virtual bool keeps_best() const = 0;
  // The float32 weights that would be saved if the run ended here. Every rank is asked.
  virtual StateDict weights_now() const = 0;
  virtual std::string plot() const = 0;
  // Writes the files of the model directory with these weights, model card included. Rank 0 alone is asked.
  virtual void write_model(Report& report, const std::filesystem::path& directory, const StateDict& weights) = 0;

  Config config_;
  const TrainingRunOptions& options_;
  std::filesystem::path directory_;    // of checkpoints, log, plot
  std::optional<DirectoryLock> lock_;  // of rank 0
  RunNotes notes_;
  State state_;
  std::int64_t resumed_step_ = 0;
  History history_;
  std::int64_t steps_ = 0;
  std::optional<TrainedWeights> weights_;
  std::unique_ptr<AdamW> optimizer_;

 private:
  void resume();
  TrainingOptions training_options();
  void after_step(const StepReport& report);
  void validate(std::int64_t step);
  void set_parts();
  // The ranks, or the groups of ranks, that batches are dealt out to.
  std::int64_t batch_sharers() const { return options_.ranks.size() / options_.context_parallel; }
  bool wants_stop() const { return state_.stopped_early || (options_.should_stop && options_.should_stop()); }
  // Whether the validation is the best one so far.
  bool update_best(const Validation& validation);
  void share_state(bool& better);
  void write_history() const;
};

template <typename Config, typename State, typename Report>
TrainingRun<Config, State, Report>::TrainingRun(const Config& config, const TrainingRunOptions& options)
    : config_(config),
      options_(options),
      directory_(config.output / "training"),
      notes_(options.ranks.rank() == 0 ? options.progress : nullptr) {
  if (is_first()) {
    lock_.emplace(config.output, std::string_view(), "another run is training there");
    remove_stray_files(config_.output);
  }
  check(options.context_parallel >= 1 && options.ranks.size() % options.context_parallel == 0, "context_parallel is ",
        options.context_parallel, ", which does not divide the ", options.ranks.size(), " ranks");
  check_same_lines(options.ranks, "the settings", config_.to_json());
  resume();
  set_parts();
}

// A resumed run keeps the batches of a step, whatever the number of its ranks.
template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::set_parts() {
  const std::int64_t sharers = batch_sharers();
  if (resumed_step_ == 0) state_.parts = config_.accumulate * sharers;
  check(state_.parts % sharers == 0, "the run was begun with ", state_.parts, " batches in a step, which ", sharers,
        options_.context_parallel > 1 ? " groups of ranks" : " ranks", " cannot share evenly");
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::begin_weights(const StateDict& initial) {
  share_out_state(*weights_, *optimizer_, options_.ranks, TrainingOptions().bucket_bytes);
  optimizer_->load_master_weights(initial);
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::resume() {
  std::optional<Checkpoint> checkpoint;
  if (is_first()) checkpoint = load_checkpoint(directory_);
  const std::string step = text_of_first(options_.ranks, checkpoint ? std::to_string(checkpoint->step) : std::string());
  if (step.empty()) {
    if (!is_first()) return;
    // Stopped before its first checkpoint, a run begins again, with the settings that it was begun with.
    if (const std::optional<Config> earlier = options_.resume ? Config::of_run(config_.output) : std::nullopt) {
      state_.config = *earlier;
      state_.check_resumable(config_);
    }
    return;
  }
  check(options_.resume, directory_.string(), " holds the checkpoint of step ", step,
        " of another run; resume it, remove the directory or name another output");
  state_ = State::from_json(text_of_first(options_.ranks, checkpoint ? checkpoint->state : std::string()));
  state_.check_resumable(config_);
  resumed_step_ = std::stoll(step);
  if (is_first()) history_ = History::load(directory_ / "training.jsonl", resumed_step_);
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::set_data_digest(const std::string& digest, const char* what) {
  check(resumed_step_ == 0 || digest == state_.data_digest, config_.data.string(),
        " has changed since the checkpoint of step ", resumed_step_, " was made; resuming wants the same ", what);
  options_.ranks.check_same("the checksum of the " + std::string(what), digest);
  state_.config = config_;
  state_.data_digest = digest;
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::check_tokenizer(const std::filesystem::path& directory) {
  const FileChecksums now = resumed_step_ > 0 ? tokenizer_checksums(directory) : FileChecksums();
  if (!now.empty()) check_tokenizer_unchanged(state_.tokenizer, now, directory);
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::set_tokenizer(const std::filesystem::path& directory) {
  const FileChecksums now = tokenizer_checksums(directory);
  check_tokenizer_unchanged(state_.tokenizer, now, directory);
  state_.tokenizer = now;
}

template <typename Config, typename State, typename Report>
Report TrainingRun<Config, State, Report>::run() {
  // A resumed run that had stopped early takes no more steps and writes its model again.
  if (state_.stopped_early) steps_ = resumed_step_;
  std::error_code ignored;
  if (is_first()) {
    write_run_settings(directory_ / "settings.json", {.kind = State::kKind,
                                                      .working_directory = std::filesystem::current_path(ignored),
                                                      .config = parse_json(config_.to_json(), "settings")});
  }
  Report report;
  const bool stop = options_.should_stop && options_.should_stop();
  if (options_.ranks.all_reduce(stop ? 1.0 : 0.0, Reduce::max) > 0.0) {  // asked to stop while the data was read
    report.training.stopped = true;
    report.training.last_step = resumed_step_;
    report.validations = state_.validations;
    return report;
  }
  notes_.begin_steps();
  report.training = train(
      *weights_, *optimizer_, schedule(), [this](const BatchPosition& position) { return loss_of(position); },
      training_options());
  report.validations = state_.validations;
  report.finished = report.training.last_step >= steps_ || state_.stopped_early;
  if (is_first()) write_history();
  if (report.finished) {
    const bool best = keeps_best() && state_.best_step > 0;
    const StateDict weights = best ? weights_->best().state_dict() : weights_now();
    if (is_first()) {
      replace_files(config_.output, [&](const std::filesystem::path& files) { write_model(report, files, weights); });
    }
    options_.ranks.barrier();
  }
  return report;
}

template <typename Config, typename State, typename Report>
TrainingOptions TrainingRun<Config, State, Report>::training_options() {
  TrainingOptions options = run_options(config_, steps_, options_);
  options.on_step = [this](const StepReport& report) { after_step(report); };
  options.accumulate = state_.parts / batch_sharers();
  options.context_parallel = options_.context_parallel;
  options.should_stop = [this] { return wants_stop(); };
  options.save_state = [this] { return state_.to_json(); };
  return options;
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::after_step(const StepReport& report) {
  if (is_first()) history_.add(report);
  after_update(report.step);
  if (report.step % validate_every() == 0 || report.step == steps_) validate(report.step);
}

template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::validate(std::int64_t step) {
  if (std::optional<Validation> validation = validation_of(step)) {
    bool better = false;
    if (is_first()) {
      state_.validations.push_back(std::move(*validation));
      notes_.write("step " + std::to_string(step) + ": validation " + validation_text(state_.validations.back()));
      better = update_best(state_.validations.back());
    }
    share_state(better);
    if (better && keeps_best()) weights_->best().load_state_dict(weights_now());
  }
  if (is_first()) write_history();
}

// Gives every rank what rank 0 has decided.
template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::share_state(bool& better) {
  if (options_.ranks.is_alone()) return;
  const std::string state = text_of_first(options_.ranks, state_.to_json());
  better = !text_of_first(options_.ranks, better ? "better" : "").empty();
  if (!is_first()) state_ = State::from_json(state);
}

// Counts validations without better ones, and ends the run after `patience` validations without better ones.
template <typename Config, typename State, typename Report>
bool TrainingRun<Config, State, Report>::update_best(const Validation& validation) {
  const double score = score_of(validation);
  if (state_.best_step == 0 || score > state_.best_score) {
    state_.best_step = validation.step;
    state_.best_score = score;
    state_.without_better = 0;
    return true;
  }
  ++state_.without_better;
  if (config_.patience == 0 || state_.without_better < config_.patience) return false;
  state_.stopped_early = true;
  notes_.write("no better " + std::string(score_name()) + " in " + std::to_string(state_.without_better) +
               " validations: stopping early");
  return false;
}

// Writes the history of the run so far: the validations and the plot.
template <typename Config, typename State, typename Report>
void TrainingRun<Config, State, Report>::write_history() const {
  std::string lines;
  for (const Validation& validation : state_.validations) lines += State::line_of(validation) + "\n";
  replace_file(directory_ / "validation.jsonl", lines);
  replace_file(directory_ / "plot.html", plot());
}

}  // namespace headway::inline v0::internal

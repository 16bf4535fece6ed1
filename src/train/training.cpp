// The training loop.
#include "headway/training.h"

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/directory_lock.h"
#include "base/files.h"
#include "base/terminal.h"
#include "core/random.h"
#include "core/random_stream.h"
#include "core/tensor_impl.h"
#include "headway/autograd.h"
#include "headway/random.h"
#include "headway/sequence_parallel.h"
#include "train/checkpoint.h"
#include "train/gradient_norms.h"
#include "train/optimizer_shares.h"
#include "train/progress.h"
#include "train/rank_runs.h"
#include "train/training_log.h"
#include "train/training_ranks.h"

namespace headway::inline v0 {
namespace internal {
namespace {

using Clock = std::chrono::steady_clock;
using LossFunction = std::function<BatchLoss(const BatchPosition&)>;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Restores the random state when it ends.
class RandomStateGuard {
 public:
  RandomStateGuard() : state_(random_state()) {}
  ~RandomStateGuard() { set_random_state(state_); }
  RandomStateGuard(const RandomStateGuard&) = delete;
  RandomStateGuard& operator=(const RandomStateGuard&) = delete;

 private:
  RandomState state_;
};

// The seed of one part of one step: it does not depend on earlier steps, so a resumed run draws the same.
std::uint64_t part_seed(std::uint64_t seed, const BatchPosition& position) {
  // The last word keeps these apart from other draws under the same seed.
  const auto words =
      philox4x32_7({static_cast<std::uint32_t>(position.step), static_cast<std::uint32_t>(position.step >> 32),
                    static_cast<std::uint32_t>(position.part), 0x57E957E9},
                   philox_key(seed));
  return std::uint64_t{words[0]} << 32 | words[1];
}

void check_options(const TrainingOptions& options) {
  check(options.steps >= 1, "train: steps is ", options.steps, ", expected 1 or more");
  check(options.accumulate >= 1, "train: accumulate is ", options.accumulate, ", expected 1 or more");
  check(options.clip_norm >= 0.0, "train: clip_norm is ", options.clip_norm, ", expected 0 (none) or more");
  check(options.max_skipped_steps >= 1, "train: max_skipped_steps is ", options.max_skipped_steps,
        ", expected 1 or more");
  check(options.checkpoint_every >= 1, "train: checkpoint_every is ", options.checkpoint_every, ", expected 1 or more");
  check(options.keep_checkpoints >= 1, "train: keep_checkpoints is ", options.keep_checkpoints, ", expected 1 or more");
  check(!options.progress || options.progress_seconds >= 0.0, "train: progress_seconds is ", options.progress_seconds,
        ", expected 0 or more");
  check(options.context_parallel >= 1 && options.ranks.size() % options.context_parallel == 0,
        "train: context_parallel is ", options.context_parallel, ", which does not divide the ", options.ranks.size(),
        " ranks");
  if (!options.log.empty()) log_format(options.log);
  check(gradients_enabled(), "train: a NoGradGuard lives, so that nothing would be learnt");
}

// Throws where a parameter of the module is no longer the optimizer's tensor, as after Module::to().
void check_same_parameters(const Module& module, const Optimizer& optimizer) {
  std::map<std::string, const TensorImpl*> held;
  for (const NamedTensor& parameter : optimizer.parameters()) held[parameter.name] = &TensorImpl::of(parameter.tensor);
  for (const NamedTensor& parameter : module.named_parameters()) {
    const auto found = held.find(parameter.name);
    check(found == held.end() || found->second == &TensorImpl::of(parameter.tensor), "train: parameter \"",
          parameter.name, "\" of the module is not the tensor that the optimizer was made with; make a new optimizer");
  }
}

ProgressOptions progress_options(const TrainingOptions& options) {
  constexpr double kRarer = 20.0;  // fewer lines for a file, which is read later, than for a terminal
  ProgressOptions progress{.stream = options.ranks.rank() == 0 ? options.progress : nullptr, .steps = options.steps};
  progress.terminal = progress.stream && is_terminal(*options.progress);
  progress.seconds = options.progress_seconds * (progress.terminal ? 1.0 : kRarer);
  return progress;
}

class TrainingLoop {
 public:
  TrainingLoop(const Module& module, Optimizer& optimizer, const Schedule& schedule, const TrainingOptions& options)
      : module_(module), optimizer_(optimizer), schedule_(schedule), options_(options) {
    check_options(options);
    check_same_parameters(module, optimizer);
    if (!options.ranks.is_alone()) ranks_.emplace(module, optimizer, options, some_learning_rates());
    const int together = options.context_parallel, group = options.ranks.rank() / together;
    parts_ = options.accumulate * (options.ranks.size() / together);
    first_part_ = options.accumulate * group;
    if (together > 1) context_ = options.ranks.split(group);
    if (!options_.directory.empty()) {
      if (is_first()) {
        lock_ = std::make_unique<DirectoryLock>(options_.directory, "checkpoint",
                                                "another run is writing its checkpoints there");
        remove_stray_files(options_.directory);
      }
      resume();
    }
    if (ranks_) ranks_->broadcast_module();
    if (!options_.log.empty() && is_first()) {
      log_ = std::make_unique<TrainingLog>(options_.log, layers_of(optimizer.parameters()), report_.last_step);
    }
  }

  TrainingReport run(const LossFunction& loss_of);

 private:
  bool is_first() const { return options_.ranks.rank() == 0; }
  std::vector<double> some_learning_rates() const {
    return {schedule_(1), schedule_((options_.steps + 1) / 2), schedule_(options_.steps)};
  }
  std::optional<Checkpoint> read_checkpoint() const;
  void resume();
  StepReport take_step(const LossFunction& loss_of, std::int64_t step);
  Tensor add_gradients(const LossFunction& loss_of, const BatchPosition& position);
  StepNumbers numbers_of(const std::vector<Tensor>& losses);
  void apply(StepReport& report, StepNumbers numbers);
  void publish(StepReport& report);
  bool weights_are_finite() const;
  void save(std::int64_t step);
  void save_unfinished();
  [[noreturn]] void give_up(const StepReport& report) const;

  const Module& module_;
  Optimizer& optimizer_;
  const Schedule& schedule_;
  const TrainingOptions& options_;
  std::unique_ptr<DirectoryLock> lock_;
  std::unique_ptr<TrainingLog> log_;
  std::optional<TrainingRanks> ranks_;  // nothing: alone
  Communicator context_;                // the ranks that compute a batch together
  std::int64_t parts_ = 1;              // of a step, on all ranks
  std::int64_t first_part_ = 0;         // of this rank
  Clock::time_point start_ = Clock::now();

  TrainingReport report_;
  std::int64_t skipped_in_a_row_ = 0;
  std::int64_t step_tokens_ = 0;
  std::int64_t saved_step_ = 0;  // the newest checkpoint; 0: none
};

// The checkpoint to go on from, which fits module and optimizer.
std::optional<Checkpoint> TrainingLoop::read_checkpoint() const {
  if (!options_.resume) {
    const std::vector<std::int64_t> steps = checkpoint_steps(options_.directory);
    check(steps.empty(), "train: resume is false, and ", options_.directory.string(), " holds ", steps.size(),
          " checkpoints of another run; remove them or name another directory");
    return {};
  }
  std::optional<Checkpoint> checkpoint = load_checkpoint(options_.directory);
  if (!checkpoint) return {};
  check(checkpoint->seed == options_.seed, "train: the checkpoint of step ", checkpoint->step, " was made with seed ",
        checkpoint->seed, ", the options' seed is ", options_.seed);
  check_fits(checkpoint->module, module_.state_dict(), "module", checkpoint->step);
  StateDict expected;
  for (const StateEntry& entry : state_entries(optimizer_)) expected.emplace(entry.name, shape_of(entry));
  check_fits(checkpoint->optimizer, expected, "optimizer", checkpoint->step);
  return checkpoint;
}

void TrainingLoop::resume() {
  const auto read = [this] { return read_checkpoint(); };
  std::optional<Checkpoint> checkpoint = ranks_ ? ranks_->shared(read) : read();
  if (!checkpoint) return;
  if (is_first()) module_.load_state_dict(checkpoint->module);
  if (ranks_) {
    ranks_->load_optimizer(checkpoint->optimizer);
  } else {
    optimizer_.load_state_dict(checkpoint->optimizer);
  }
  if (options_.load_state) options_.load_state(checkpoint->state);

  saved_step_ = checkpoint->step;
  skipped_in_a_row_ = checkpoint->skipped_in_a_row;
  report_.first_step = checkpoint->step + 1;
  report_.last_step = checkpoint->step;
  report_.skipped_steps = checkpoint->skipped_steps;
  report_.loss = checkpoint->loss;
  report_.unreadable = std::move(checkpoint->unreadable);
}

TrainingReport TrainingLoop::run(const LossFunction& loss_of) {
  const RandomStateGuard random;
  std::optional<OwnRandomStream> own_stream;  // ranks may be threads of one process
  if (ranks_) own_stream.emplace(random_state());
  Progress progress(progress_options(options_));
  for (const std::string& reason : report_.unreadable) progress.note("unreadable: " + reason);
  if (saved_step_ > 0) progress.note("resumed after step " + std::to_string(saved_step_));
  module_.train();
  start_ = Clock::now();
  while (report_.last_step < options_.steps && !report_.stopped) {
    StepReport report = take_step(loss_of, report_.last_step + 1);
    publish(report);
    progress.show(report, step_tokens_);
    if (skipped_in_a_row_ >= options_.max_skipped_steps) give_up(report);
    const bool wanted = options_.should_stop && options_.should_stop();
    report_.stopped = ranks_ ? ranks_->any(wanted) : wanted;
    const bool last = report.step == options_.steps || report_.stopped;
    if (last || report.step % options_.checkpoint_every == 0) save(report.step);
  }
  return std::move(report_);
}

StepReport TrainingLoop::take_step(const LossFunction& loss_of, std::int64_t step) {
  const Clock::time_point start = Clock::now();
  module_.zero_grad();
  optimizer_.zero_grad();
  StepReport report;
  report.step = step;
  report.learning_rate = schedule_(step);
  step_tokens_ = 0;
  if (ranks_) ranks_->begin_step();
  std::vector<Tensor> losses;  // one element each
  try {
    for (std::int64_t part = first_part_; part < first_part_ + options_.accumulate; ++part) {
      const std::int64_t index = (step - 1) * parts_ + part;
      losses.push_back(add_gradients(loss_of, {.step = step, .part = part, .index = index}));
    }
  } catch (...) {
    save_unfinished();
    throw;
  }
  apply(report, numbers_of(losses));

  const double seconds = seconds_since(start);
  report.tokens_per_second = seconds > 0.0 ? static_cast<double>(step_tokens_) / seconds : 0.0;
  return report;
}

// Adds one part's share to the gradients; returns its loss, which a device may still be computing.
Tensor TrainingLoop::add_gradients(const LossFunction& loss_of, const BatchPosition& position) {
  set_random_seed(part_seed(options_.seed, position));
  const BatchLoss batch = [&] {
    const SequenceParallelGuard guard(context_);
    return loss_of(position);
  }();
  check(batch.loss.defined(), "train: the loss of step ", position.step, " is undefined");
  check(batch.loss.element_count() == 1, "train: the loss of step ", position.step, " is ", batch.loss,
        ", expected one element");
  step_tokens_ += batch.tokens;
  const double share = 1.0 / static_cast<double>(parts_);
  const Tensor d_loss = Tensor::full(batch.loss.shape(), share, batch.loss.dtype(), batch.loss.device());
  if (ranks_ && position.part + 1 == first_part_ + options_.accumulate) {
    const GradientWatch watch = ranks_->watch();
    batch.loss.backward(d_loss);
  } else {
    batch.loss.backward(d_loss);
  }
  return batch.loss.detach();
}

// The losses are read after the norms, so that all of the step's work is enqueued on a device before the host waits for
// it.
StepNumbers TrainingLoop::numbers_of(const std::vector<Tensor>& losses) {
  if (ranks_) return ranks_->finish_step(losses, step_tokens_);
  StepNumbers numbers{.losses = {}, .tokens = step_tokens_, .norms = gradient_norms(optimizer_.parameters())};
  for (const Tensor& loss : losses) numbers.losses.push_back(loss.item());
  return numbers;
}

// Updates the parameters, unless the loss or a gradient is not finite.
void TrainingLoop::apply(StepReport& report, StepNumbers numbers) {
  GradientNorms& norms = numbers.norms;
  for (const double loss : numbers.losses) report.loss += loss;
  report.loss /= static_cast<double>(parts_);
  step_tokens_ = numbers.tokens;
  report.ranks = options_.ranks.size();
  report.waiting = numbers.waiting;
  report.peak_bytes = numbers.peak_bytes;
  check(!norms.parameters.empty(), "train: none of the optimizer's ", optimizer_.parameters().size(),
        " parameters has a gradient at step ", report.step, "; the loss does not depend on them");
  report.gradient_norm = norms.total;
  report.layers = std::move(norms.layers);
  report.skipped = !norms.bad.empty() || !std::isfinite(norms.total) || !std::isfinite(report.loss);
  if (report.skipped) {
    if (!norms.bad.empty()) report.bad_gradient = norms.bad.front();
    ++report_.skipped_steps;
    ++skipped_in_a_row_;
    if (ranks_) ranks_->skip();
    return;
  }
  skipped_in_a_row_ = 0;
  optimizer_.set_learning_rate(report.learning_rate);
  const double factor = options_.clip_norm > 0.0 ? clipping_factor(norms.total, options_.clip_norm) : 1.0;
  if (ranks_) {
    ranks_->update(factor);
  } else {
    optimizer_.step(factor);
  }
}

// Completes the report and passes it to the log and to on_step.
void TrainingLoop::publish(StepReport& report) {
  report_.last_step = report.step;
  report_.loss = report.loss;
  report.seconds = seconds_since(start_);
  const auto done = static_cast<double>(report.step - report_.first_step + 1);
  report.seconds_left = report.seconds / done * static_cast<double>(options_.steps - report.step);
  if (log_) log_->append(report);
  if (options_.on_step) options_.on_step(report);
}

bool TrainingLoop::weights_are_finite() const {
  for (const NamedTensor& parameter : optimizer_.parameters()) {
    const NumberKinds kinds = number_kinds(parameter.tensor);
    if (kinds.nan || kinds.infinite) return false;
  }
  return true;
}

void TrainingLoop::save(std::int64_t step) {
  if (options_.directory.empty()) return;
  // Weights that make every step fail must not push out the checkpoints before them.
  if (skipped_in_a_row_ > 0 && !weights_are_finite()) return;
  if (log_) log_->flush_to_disk();
  Checkpoint checkpoint{.step = step};
  if (is_first()) {
    checkpoint.module = module_.state_dict();
    if (options_.save_state) checkpoint.state = options_.save_state();
    checkpoint.seed = options_.seed;
    checkpoint.loss = report_.loss;
    checkpoint.skipped_steps = report_.skipped_steps;
    checkpoint.skipped_in_a_row = skipped_in_a_row_;
  }
  if (ranks_) {
    ranks_->save(options_.directory, checkpoint, options_.keep_checkpoints);
  } else {
    checkpoint.optimizer = optimizer_.state_dict();
    save_checkpoint(options_.directory, checkpoint, options_.keep_checkpoints);
  }
  saved_step_ = step;
}

// A checkpoint of the last whole step, where a loss throws and the parameters are still those of that step. With a
// state of its own the run may be further than its parameters, and continues from an older checkpoint. Other ranks do
// not wait to be asked for their share.
void TrainingLoop::save_unfinished() {
  if (ranks_ || options_.save_state || report_.last_step <= saved_step_) return;
  try {
    save(report_.last_step);
  } catch (const std::exception&) {  // what ended the run matters more
  }
}

void TrainingLoop::give_up(const StepReport& report) const {
  const std::string where = report.bad_gradient.empty() ? "all gradients were finite"
                                                        : "of the gradients that were not finite that of \"" +
                                                              report.bad_gradient + "\" is nearest to the output";
  const std::string kept =
      saved_step_ > 0 ? "; the checkpoint of step " + std::to_string(saved_step_) + " is whole" : "";
  fail("train: ", skipped_in_a_row_, " steps in a row could not be taken; at step ", report.step, " the loss was ",
       report.loss, ", the learning rate ", report.learning_rate, ", and ", where, kept);
}

}  // namespace
}  // namespace internal

TrainingReport train(const Module& module, Optimizer& optimizer, const Schedule& schedule,
                     const std::function<BatchLoss(const BatchPosition&)>& loss_of, const TrainingOptions& options) {
  internal::check(static_cast<bool>(schedule), "train: the schedule is empty");
  internal::check(static_cast<bool>(loss_of), "train: the loss function is empty");
  return internal::ending_all(
      options.ranks, [&] { return internal::TrainingLoop(module, optimizer, schedule, options).run(loss_of); });
}

}  // namespace headway::inline v0

// The training loop: steps, accumulation, clipping, checkpoints that resume to the same bits, progress and a log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "headway/export.h"
#include "headway/module.h"
#include "headway/optimizer.h"

namespace headway {
inline namespace v0 {

// Which batch a loss is wanted for.
struct BatchPosition {
  std::int64_t step = 0;   // counted from 1
  std::int64_t part = 0;   // 0 .. accumulate - 1
  std::int64_t index = 0;  // all parts counted from 0: a loss that depends on this alone resumes by itself
};

struct BatchLoss {
  Tensor loss = {};         // one element, to be minimised
  std::int64_t tokens = 0;  // for the tokens per second
};

// One line of the log.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;  // mean over the step's parts
  double learning_rate = 0.0;
  double gradient_norm = 0.0;     // before clipping
  std::vector<NamedNorm> layers;  // gradient norms by layer
  double tokens_per_second = 0.0;
  double seconds = 0.0;  // since the loop began
  double seconds_left = 0.0;
  bool skipped = false;      // the loss or a gradient was not finite: nothing changed
  std::string bad_gradient;  // the parameter nearest to the output whose gradient was not finite; empty: none
};

struct TrainingOptions {
  std::int64_t steps = 0;
  std::int64_t accumulate = 1;          // batches whose gradients are averaged into a step
  double clip_norm = 0.0;               // 0: no clipping
  std::uint64_t seed = 0;               // of dropout: a step's seeds follow from (seed, step, part)
  std::int64_t max_skipped_steps = 10;  // after so many in a row without a finite gradient the loop throws

  std::filesystem::path directory = {};  // of checkpoints, for one run at a time; empty: none are written
  std::int64_t checkpoint_every = 1000;  // steps; the last step is always kept
  std::int64_t keep_checkpoints = 3;
  bool resume = true;  // go on from the newest checkpoint in the directory; false wants a directory without any

  // .jsonl or .csv by its ending, one line per step. When training begins, lines after the checkpoint's step are cut
  // off, and all of them where there is no checkpoint.
  std::filesystem::path log = {};
  std::ostream* progress = nullptr;  // a line that is rewritten on a terminal, and now and then a new one elsewhere
  double progress_seconds = 0.5;     // between two updates on a terminal; elsewhere 20 times as long
  std::function<void(const StepReport&)> on_step = {};
  std::function<bool()> should_stop = {};  // asked after every step; true writes a checkpoint and ends the loop

  // What else belongs to a checkpoint, such as the place in the data, as UTF-8 text.
  std::function<std::string()> save_state = {};
  std::function<void(const std::string&)> load_state = {};
};

struct TrainingReport {
  std::int64_t first_step = 1;  // after 1 where it resumed
  std::int64_t last_step = 0;
  std::int64_t skipped_steps = 0;        // those before it resumed included
  double loss = 0.0;                     // of the last step
  bool stopped = false;                  // by should_stop
  std::vector<std::string> passed_over;  // newer checkpoints that could not be read when it resumed, and why
};

// Minimises the loss. The module is put into training mode; the optimizer's learning rate follows the schedule. Before
// every loss the random state is set to a hash of (seed, step, part), and at the end to what it was. A run that is
// killed at any moment and called again with the same arguments ends with the same bits as one that never stopped.
HEADWAY_API TrainingReport train(const Module& module, Optimizer& optimizer, const Schedule& schedule,
                                 const std::function<BatchLoss(const BatchPosition&)>& loss_of,
                                 const TrainingOptions& options);

// ---- checkpoints: one safetensors file each, replaced at once or not at all; the same from every device ----

struct Checkpoint {
  std::int64_t step = 0;  // the last one taken
  StateDict module = {};
  StateDict optimizer = {};
  std::string state = {};  // what TrainingOptions::save_state gave
  std::uint64_t seed = 0;  // TrainingOptions::seed; resuming with another one is an error
  double loss = 0.0;       // of the last step
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;
  std::vector<std::string> passed_over = {};  // by load_checkpoint(): newer files that could not be read, and why
};

// Writes directory/step-00001000.safetensors and removes all but the last `keep`. Where writing fails, an Error is
// thrown and the earlier ones are as they were.
HEADWAY_API void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                                 std::int64_t keep = 3);
// The newest file that is whole; unreadable ones are passed over. Nothing where there are no files; throws where there
// are some and none can be read. The tensors are views of the file, not to be written to.
HEADWAY_API std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& directory);

}  // namespace v0
}  // namespace headway

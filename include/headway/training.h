// The training loop: steps, accumulation, clipping, checkpoints that resume to the same bits, progress and a log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "headway/communicator.h"
#include "headway/export.h"
#include "headway/module.h"
#include "headway/optimizer.h"

namespace headway {
inline namespace v0 {

// Identifies the batch whose loss is computed.
struct BatchPosition {
  std::int64_t step = 0;   // counted from 1
  std::int64_t part = 0;   // of the step: 0 .. accumulate - 1, on n ranks 0 .. n * accumulate - 1
  std::int64_t index = 0;  // of the batch in the whole run, from 0; a loss that uses only it resumes without save_state
};

struct BatchLoss {
  Tensor loss = {};         // one element, to be minimised
  std::int64_t tokens = 0;  // for the tokens per second
};

// One line of the log.
struct StepReport {
  std::int64_t step = 0;
  double loss = 0.0;  // mean over the step's batches
  double learning_rate = 0.0;
  double gradient_norm = 0.0;     // before clipping
  std::vector<NamedNorm> layers;  // gradient norms by layer
  double tokens_per_second = 0.0;
  double seconds = 0.0;  // since the loop began
  double seconds_left = 0.0;
  bool skipped = false;      // the loss or a gradient was not finite, so the parameters were left unchanged
  std::string bad_gradient;  // the parameter nearest to the output whose gradient was not finite; empty: none
  int ranks = 1;             // that trained; above 1 the tokens per second are those of all, and the following are set
  double waiting = 0.0;      // share of all ranks' time in which they waited for each other, since the step before
  std::int64_t peak_bytes = 0;  // the most memory that the process of a rank has had: that of the largest
};

struct TrainingOptions {
  std::int64_t steps = 0;
  std::int64_t accumulate = 1;          // batches whose gradients are averaged into a step
  double clip_norm = 0.0;               // 0: no clipping
  std::uint64_t seed = 0;               // of dropout: a step's seeds follow from (seed, step, part)
  std::int64_t max_skipped_steps = 10;  // train() throws after so many skipped steps in a row

  std::filesystem::path directory = {};  // of checkpoints, locked by one run at a time; empty: no checkpoints
  std::int64_t checkpoint_every = 1000;  // steps; the last step is always kept
  std::int64_t keep_checkpoints = 3;
  bool resume = true;  // continue from the newest checkpoint in the directory; false: it must hold none

  // .jsonl or .csv by its ending, one line per step. When training begins, lines after the checkpoint's step are
  // removed; without a checkpoint, all of them.
  std::filesystem::path log = {};
  std::ostream* progress = nullptr;  // one line, rewritten in place, on a terminal; elsewhere a new line at intervals
  double progress_seconds = 0.5;     // between two updates on a terminal; elsewhere 20 times as long
  std::function<void(const StepReport&)> on_step = {};
  std::function<bool()> should_stop = {};  // called after every step; true writes a checkpoint and ends the loop

  // More state for a checkpoint, such as the position in the data, as UTF-8 text.
  std::function<std::string()> save_state = {};
  std::function<void(const std::string&)> load_state = {};

  // The ranks that train together; by default one alone. See train().
  Communicator ranks = {};
  // So many neighbouring ranks compute one batch together, each its share of the tokens: loss_of() is called with the
  // same position on all of them, under a SequenceParallelGuard, and returns a loss whose sum over them is the batch's.
  int context_parallel = 1;
  std::int64_t bucket_bytes = 4 << 20;  // gradients of about so many bytes are sent at once
};

struct TrainingReport {
  std::int64_t first_step = 1;  // the first step of this call; above 1 where it resumed
  std::int64_t last_step = 0;
  std::int64_t skipped_steps = 0;       // including those before it resumed
  double loss = 0.0;                    // of the last step
  bool stopped = false;                 // by should_stop
  std::vector<std::string> unreadable;  // newer checkpoints that could not be read when it resumed, and why
};

// Minimises the loss. Where the loss function throws, a checkpoint of the last step is written, unless there is a
// save_state. The module is put into training mode; the optimizer's learning rate follows the schedule. Before
// every loss the random state is set to a hash of (seed, step, part), and restored at the end. A run that is killed at
// any moment and called again with the same arguments ends with the same bits as an uninterrupted one.
//
// On n ranks (options.ranks) every rank calls it with its own copy of the module and the same options. A step has n *
// accumulate parts: rank r computes the losses of r * accumulate and the following ones, gradients are summed over the
// ranks while the backward pass still runs, and each rank keeps the optimizer's moments and masters of its share of the
// parameters, which it updates. What one rank computes with n times the accumulation, n ranks compute within rounding;
// float32 and float64 with accumulate = 1 and without clipping to the same bits, where no parameter is used twice in a
// loss. While it trains, each rank's thread has a random state of its own.
//   The values of rank 0's module, its checkpoint and its save_state() are those of all ranks; rank 0 alone writes, and
// shows progress. A checkpoint may be resumed on another number of ranks. should_stop() of any rank ends all after the
// same step; on_step() and load_state() are called on every rank. An exception on one rank ends train() on all, with an
// Error that names the rank; where a loss throws, no checkpoint is written.
HEADWAY_API TrainingReport train(const Module& module, Optimizer& optimizer, const Schedule& schedule,
                                 const std::function<BatchLoss(const BatchPosition&)>& loss_of,
                                 const TrainingOptions& options);

// ---- checkpoints: one safetensors file each, written atomically; independent of the device ----

struct Checkpoint {
  std::int64_t step = 0;  // the last one taken
  StateDict module = {};
  StateDict optimizer = {};
  std::string state = {};  // what TrainingOptions::save_state returned
  std::uint64_t seed = 0;  // TrainingOptions::seed; resuming with another one is an error
  double loss = 0.0;       // of the last step
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;
  std::vector<std::string> unreadable = {};  // set by load_checkpoint(): newer files that it could not read, and why
};

// Writes directory/step-00001000.safetensors with a checksum of every tensor and removes all but the last `keep`. Where
// writing fails, an Error is thrown and the earlier ones are unchanged.
HEADWAY_API void save_checkpoint(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                                 std::int64_t keep = 3);
// The newest checkpoint that is whole, with the newer ones listed in it; nothing where the directory has none. A
// checkpoint is not whole where a checksum differs, or a weight or the optimizer's state of it is not finite; those of
// version 0.1 have no checksums. Throws where there are checkpoints and none is whole, with the reason for
// each. The tensors are read-only views of the file.
HEADWAY_API std::optional<Checkpoint> load_checkpoint(const std::filesystem::path& directory);

}  // namespace v0
}  // namespace headway

// What runs write between steps, and the options of the loop that their configs share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>

#include "headway/training.h"
#include "headway/training_run.h"

namespace headway::inline v0::internal {

// Lines between those of the progress.
class RunNotes {
 public:
  // `stream` is nullptr where nothing is written.
  explicit RunNotes(std::ostream* stream) : stream_(stream) {}

  // From now on train() writes its progress too.
  void begin_steps() { in_steps_ = true; }
  void write(const std::string& text) const;

 private:
  std::ostream* stream_;
  bool in_steps_ = false;
};

// Where a run computes, for the model card: "the CPU" or a GPU by its name.
std::string device_text(const std::string& device);

// The options that fields of the same names set; checkpoints and log go to output/training.
template <typename Config>
TrainingOptions run_options(const Config& config, std::int64_t steps, const TrainingRunOptions& run) {
  TrainingOptions options;
  options.steps = steps;
  options.accumulate = config.accumulate;
  options.ranks = run.ranks;
  options.clip_norm = config.clip_norm;
  options.seed = config.seed;
  options.directory = config.output / "training";
  options.checkpoint_every = config.checkpoint_every;
  options.keep_checkpoints = config.keep_checkpoints;
  options.resume = run.resume;
  options.log = options.directory / "training.jsonl";
  options.progress = run.progress;
  return options;
}

}  // namespace headway::inline v0::internal

// What training runs from files to a model directory share: fields of their configs, schedules by name, run options.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include "headway/communicator.h"

namespace headway {
inline namespace v0 {

// How the learning rate changes after the warm-up, in which it rises linearly to its peak.
enum class LearningRateSchedule {
  cosine,        // falls to the final rate in half a cosine
  inverse_sqrt,  // falls with the square root of the step: the schedule of "Attention Is All You Need"
  linear,        // falls linearly to the final rate
  constant,
};

// A field of a config: its name, its default as text and one line that explains it.
struct ConfigField {
  std::string name;
  std::string default_value;
  std::string help;
};

struct TrainingRunOptions {
  bool resume = false;                     // continue from output/training; false: it must hold no checkpoint
  std::ostream* progress = nullptr;        // where progress is written; nullptr: nowhere
  std::function<bool()> should_stop = {};  // called after every step; true writes a checkpoint and ends the run

  // The ranks that train together: every rank calls with the same settings and reads the same files, and the output is
  // a directory that all of them see, into which rank 0 alone writes. A step has the config's `accumulate` batches of
  // every rank; a run that goes on with another number of ranks, which must divide the batches of a step, keeps their
  // number. Evaluations and the test are reported on rank 0.
  Communicator ranks = {};
  // As in TrainingOptions: the tokens of a batch are shared out to so many neighbouring ranks. For tasks with a loss
  // for every token.
  int context_parallel = 1;
};

}  // namespace v0
}  // namespace headway

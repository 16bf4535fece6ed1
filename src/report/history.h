// The steps of a run, for its plot.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headway/training.h"

namespace headway::inline v0::internal {

// Numbers of every step.
class History {
 public:
  struct Step {
    std::int64_t step = 0;
    double loss = 0.0;
    double learning_rate = 0.0;
    std::vector<float> norms;  // of the gradient by layer, in the order of layers()
  };

  void add(const StepReport& report);
  // Reads back the lines of a training.jsonl up to a step; lines that are unreadable are left out.
  static History load(const std::filesystem::path& log, std::int64_t last_step);

  const std::vector<Step>& steps() const { return steps_; }
  const std::vector<std::string>& layers() const { return layers_; }

 private:
  // The layer's place in `layers_`, which grows where it is new.
  std::size_t place_of(const std::string& layer);

  std::vector<Step> steps_;
  std::vector<std::string> layers_;
};

}  // namespace headway::inline v0::internal

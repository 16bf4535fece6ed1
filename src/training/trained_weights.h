// The contents of a run's checkpoint besides the optimizer: the model, its running mean, its best state.
#pragma once

#include <cstdint>
#include <optional>

#include "headway/module.h"

namespace headway::inline v0::internal {

// The weights of a model at some time, as buffers of the same names; float32, whatever the model computes in.
class WeightCopy : public Module {
 public:
  explicit WeightCopy(const Module& model);

  // Makes these the mean of `count` states of which `weights`, float32 by the parameters' names, is the last one.
  void add_to_mean(const StateDict& weights, std::int64_t count) const;
};

// The module that headway::train() keeps in its checkpoints, so that mean and best state resume with the model.
class TrainedWeights : public Module {
 public:
  struct Parts {
    bool mean = false;
    bool best = false;
  };
  // The model is kept in the dtype that it computes in.
  TrainedWeights(const Module& model, const Parts& parts);

  const WeightCopy& mean() const { return *mean_; }
  const WeightCopy& best() const { return *best_; }

 private:
  std::optional<WeightCopy> mean_;
  std::optional<WeightCopy> best_;
};

}  // namespace headway::inline v0::internal

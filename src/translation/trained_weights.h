// The contents of a translation run's checkpoint besides the optimizer: the model, its running mean, its best state.
#pragma once

#include <cstdint>
#include <optional>

#include "headway/module.h"
#include "headway/translation_model.h"

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
  TrainedWeights(const TranslationModel& model, const Parts& parts);

  // The trained model, in the dtype that it computes in.
  const TranslationModel& model() const { return model_; }
  const WeightCopy& mean() const { return *mean_; }
  const WeightCopy& best() const { return *best_; }

 private:
  TranslationModel model_;
  std::optional<WeightCopy> mean_;
  std::optional<WeightCopy> best_;
};

}  // namespace headway::inline v0::internal

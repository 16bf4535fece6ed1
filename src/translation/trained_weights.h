// What a checkpoint of a translation run holds besides the optimizer: the model, its running mean, its best state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "headway/module.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// The values of a model's parameters at some time, as buffers of the same names.
class WeightCopy : public Module {
 public:
  explicit WeightCopy(const Module& model);

  void copy_from(const Module& model) const;
  void copy_to(const Module& model) const;
  // Makes these the mean of `count` states of which the model's is the last one.
  void add_to_mean(const Module& model, std::int64_t count) const;

 private:
  std::vector<Parameter> values_;  // one buffer per parameter of the model, in its order
};

// The module that headway::train() keeps in its checkpoints, so that mean and best state resume with the model.
class TrainedWeights : public Module {
 public:
  struct Parts {
    bool mean = false;
    bool best = false;
  };
  TrainedWeights(const TranslationModel& model, const Parts& parts);

  const TranslationModel& model() const { return model_; }
  const WeightCopy& mean() const { return *mean_; }
  const WeightCopy& best() const { return *best_; }

 private:
  TranslationModel model_;
  std::optional<WeightCopy> mean_;
  std::optional<WeightCopy> best_;
};

// Puts other weights into a model, and back what was there when it goes.
class SwappedWeights {
 public:
  SwappedWeights(const Module& model, const WeightCopy& weights);
  ~SwappedWeights();
  SwappedWeights(const SwappedWeights&) = delete;
  SwappedWeights& operator=(const SwappedWeights&) = delete;

 private:
  const Module& model_;
  WeightCopy kept_;
};

}  // namespace headway::inline v0::internal

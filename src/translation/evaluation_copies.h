// Copies of a model in training: one with other weights, and one on the CPU.
#pragma once

#include <optional>

#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// A float32 model of the same shape as the trained one, for the evaluation of other weights: running means, and the
// masters of rounded weights.
class EvaluationCopy {
 public:
  // A model on the device of `model` with `weights`, which are of all its parameters by name; the next call changes it.
  const TranslationModel& of(const TranslationModel& model, const StateDict& weights);

 private:
  std::optional<TranslationModel> copy_;
};

// A copy on the CPU, for writing files.
class CpuCopy {
 public:
  // A model on the CPU with the weights that `model` has now: itself where it is there, else a copy, which the next
  // call changes.
  const TranslationModel& of(const TranslationModel& model);

 private:
  std::optional<TranslationModel> copy_;
};

}  // namespace headway::inline v0::internal

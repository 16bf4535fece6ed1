// Copies of a model that is trained: one with other weights, and one on the CPU.
#pragma once

#include <optional>

#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// A float32 model of the shape of a trained one, for weights that are not those which it computes with: means, and
// masters of rounded ones.
class EvaluationCopy {
 public:
  // A model on the device of `model` with `weights`, which are of all its parameters by name; the next call changes it.
  const TranslationModel& of(const TranslationModel& model, const StateDict& weights);

 private:
  std::optional<TranslationModel> copy_;
};

// Writing files wants weights on the CPU.
class CpuCopy {
 public:
  // A model on the CPU with the weights that `model` has now: itself where it is there, else a copy, which the next
  // call changes.
  const TranslationModel& of(const TranslationModel& model);

 private:
  std::optional<TranslationModel> copy_;
};

}  // namespace headway::inline v0::internal

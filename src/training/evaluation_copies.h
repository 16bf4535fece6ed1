// Copies of a model in training: one with other weights, and one on the CPU.
#pragma once

#include <optional>

#include "headway/transformer_model.h"
#include "headway/translation_model.h"

namespace headway::inline v0::internal {

// A float32 model of the same shape on the CPU; the process's random state is unchanged afterwards.
TranslationModel fresh_model(const TranslationModel& like);
TransformerModel fresh_model(const TransformerModel& like);

// A float32 model of the same shape as the trained one, for the evaluation of other weights: running means, and the
// masters of rounded weights.
template <typename Model>
class EvaluationCopy {
 public:
  // A model on the device of `model` with `weights`, which are of all its parameters by name; the next call changes it.
  const Model& of(const Model& model, const StateDict& weights) {
    if (!copy_) {
      copy_.emplace(fresh_model(model));
      copy_->to(model.parameters().front().device());
    }
    copy_->load_state_dict(weights, /*strict=*/false);  // its buffers are those that every model begins with
    return *copy_;
  }

 private:
  std::optional<Model> copy_;
};

// A copy on the CPU, for writing files.
template <typename Model>
class CpuCopy {
 public:
  // A model on the CPU with the weights that `model` has now: itself where it is there, else a copy, which the next
  // call changes.
  const Model& of(const Model& model) {
    if (model.parameters().front().device().is_cpu()) return model;
    if (!copy_) copy_.emplace(fresh_model(model));
    copy_->load_state_dict(model.state_dict());
    copy_->train(model.is_training());
    return *copy_;
  }

 private:
  std::optional<Model> copy_;
};

}  // namespace headway::inline v0::internal

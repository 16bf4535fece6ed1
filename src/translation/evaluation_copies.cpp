// Copies of models.
#include "translation/evaluation_copies.h"

#include "headway/random.h"

namespace headway::inline v0::internal {
namespace {

// A float32 model on the CPU. Its first weights draw seeds and count nothing.
TranslationModel fresh_model(const TranslationModelOptions& options) {
  const RandomState before = random_state();
  TranslationModel model(options);
  set_random_state(before);
  return model;
}

}  // namespace

const TranslationModel& WeightsTwin::of(const TranslationModel& model, const StateDict& weights) {
  if (!twin_) {
    twin_.emplace(fresh_model(model.options()));
    twin_->to(model.parameters().front().device());
  }
  twin_->load_state_dict(weights, /*strict=*/false);  // its buffers are those that every model begins with
  return *twin_;
}

const TranslationModel& CpuTwin::of(const TranslationModel& model) {
  if (model.parameters().front().device().is_cpu()) return model;
  if (!twin_) twin_.emplace(fresh_model(model.options()));
  twin_->load_state_dict(model.state_dict());
  twin_->train(model.is_training());
  return *twin_;
}

}  // namespace headway::inline v0::internal

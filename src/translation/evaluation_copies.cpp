// Copies of models.
#include "translation/evaluation_copies.h"

#include "headway/random.h"

namespace headway::inline v0::internal {
namespace {

// A float32 model on the CPU. Its initial weights take seeds and are overwritten.
TranslationModel fresh_model(const TranslationModelOptions& options) {
  const RandomState before = random_state();
  TranslationModel model(options);
  set_random_state(before);
  return model;
}

}  // namespace

const TranslationModel& EvaluationCopy::of(const TranslationModel& model, const StateDict& weights) {
  if (!copy_) {
    copy_.emplace(fresh_model(model.options()));
    copy_->to(model.parameters().front().device());
  }
  copy_->load_state_dict(weights, /*strict=*/false);  // its buffers are those that every model begins with
  return *copy_;
}

const TranslationModel& CpuCopy::of(const TranslationModel& model) {
  if (model.parameters().front().device().is_cpu()) return model;
  if (!copy_) copy_.emplace(fresh_model(model.options()));
  copy_->load_state_dict(model.state_dict());
  copy_->train(model.is_training());
  return *copy_;
}

}  // namespace headway::inline v0::internal

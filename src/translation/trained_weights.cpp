// Copies and means of a model's weights.
#include "translation/trained_weights.h"

#include "headway/optimizer.h"

namespace headway::inline v0::internal {
namespace {

// mean += (now - mean) * share, on the CPU.
void move_mean(const Tensor& mean, const Tensor& now, float share) {
  float* to = mean.data<float>();
  const float* from = now.data<float>();
  for (std::int64_t i = 0; i < mean.element_count(); ++i) to[i] += (from[i] - to[i]) * share;
}

}  // namespace

WeightCopy::WeightCopy(const Module& model) {
  for (const auto& [name, tensor] : model.named_parameters()) {
    add_buffer(name, Tensor::zeros(tensor.shape(), DType::float32, tensor.device()));
  }
}

void WeightCopy::add_to_mean(const StateDict& weights, std::int64_t count) const {
  if (count == 1) return load_state_dict(weights);
  const float share = 1.0F / static_cast<float>(count);
  ParameterGroup elsewhere;
  for (const auto& [name, value] : state_dict()) {
    const Tensor& now = weights.at(name);
    Tensor mean = value.detach();
    if (mean.device().is_cpu()) {
      move_mean(mean, now, share);
      continue;
    }
    mean.set_requires_grad();
    mean.set_grad(now.detach());
    elsewhere.parameters.push_back({name, mean});
  }
  if (elsewhere.parameters.empty()) return;
  // mean -= share * (-now + mean): a step of gradient descent is one pass over all tensors of a device.
  Sgd({elsewhere}, {.learning_rate = share, .weight_decay = 1.0}).step(-1.0);
}

TrainedWeights::TrainedWeights(const TranslationModel& model, const Parts& parts) : model_(model) {
  add_module("model", model_);
  if (parts.mean) add_module("mean", mean_.emplace(model));
  if (parts.best) add_module("best", best_.emplace(model));
}

}  // namespace headway::inline v0::internal

// Copies and means of a model's weights.
#include "translation/trained_weights.h"

#include "headway/autograd.h"
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
    values_.push_back(add_buffer(name, Tensor::zeros(tensor.shape(), tensor.dtype(), tensor.device())));
  }
}

void WeightCopy::copy_from(const Module& model) const {
  const NoGradGuard guard;
  const std::vector<NamedTensor> parameters = model.named_parameters();
  for (std::size_t i = 0; i < values_.size(); ++i) Tensor(values_[i].get()).copy_from(parameters[i].tensor);
}

void WeightCopy::copy_to(const Module& model) const {
  const NoGradGuard guard;
  const std::vector<NamedTensor> parameters = model.named_parameters();
  for (std::size_t i = 0; i < values_.size(); ++i) Tensor(parameters[i].tensor).copy_from(values_[i].get());
}

void WeightCopy::add_to_mean(const Module& model, std::int64_t count) const {
  if (count == 1) return copy_from(model);
  const std::vector<NamedTensor> parameters = model.named_parameters();
  const float share = 1.0F / static_cast<float>(count);
  ParameterGroup elsewhere;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto& [name, now] = parameters[i];
    Tensor mean = values_[i].get().detach();
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

SwappedWeights::SwappedWeights(const Module& model, const WeightCopy& weights) : model_(model), kept_(model) {
  kept_.copy_from(model);
  weights.copy_to(model);
}

SwappedWeights::~SwappedWeights() { kept_.copy_to(model_); }

}  // namespace headway::inline v0::internal

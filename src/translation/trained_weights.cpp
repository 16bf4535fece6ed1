// Copies and means of a model's weights.
#include "translation/trained_weights.h"

#include "headway/autograd.h"

namespace headway::inline v0::internal {

WeightCopy::WeightCopy(const Module& model) {
  for (const auto& [name, tensor] : model.named_parameters()) {
    values_.push_back({name, add_buffer(name, Tensor::zeros(tensor.shape(), tensor.dtype())).get()});
  }
}

void WeightCopy::copy_from(const Module& model) const {
  const NoGradGuard guard;
  const std::vector<NamedTensor> parameters = model.named_parameters();
  for (std::size_t i = 0; i < values_.size(); ++i) Tensor(values_[i].tensor).copy_from(parameters[i].tensor);
}

void WeightCopy::copy_to(const Module& model) const {
  const NoGradGuard guard;
  const std::vector<NamedTensor> parameters = model.named_parameters();
  for (std::size_t i = 0; i < values_.size(); ++i) Tensor(parameters[i].tensor).copy_from(values_[i].tensor);
}

void WeightCopy::add_to_mean(const Module& model, std::int64_t count) const {
  if (count == 1) return copy_from(model);
  const std::vector<NamedTensor> parameters = model.named_parameters();
  const float share = 1.0F / static_cast<float>(count);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    float* mean = values_[i].tensor.data<float>();
    const float* now = parameters[i].tensor.data<float>();
    const std::int64_t size = values_[i].tensor.element_count();
    for (std::int64_t j = 0; j < size; ++j) mean[j] += (now[j] - mean[j]) * share;
  }
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

// Copies and means of a model's weights.
#include "training/trained_weights.h"

#include "ops/elementwise.h"

namespace headway::inline v0::internal {

WeightCopy::WeightCopy(const Module& model) {
  for (const auto& [name, tensor] : model.named_parameters()) {
    add_buffer(name, Tensor::zeros(tensor.shape(), DType::float32, tensor.device()));
  }
}

void WeightCopy::add_to_mean(const StateDict& weights, std::int64_t count) const {
  if (count == 1) return load_state_dict(weights);
  for (const auto& [name, mean] : state_dict()) {
    lerp_into(mean.detach(), weights.at(name).detach().contiguous(), 1.0 / static_cast<double>(count));
  }
}

TrainedWeights::TrainedWeights(const Module& model, const Parts& parts) {
  add_module("model", model);
  if (parts.mean) add_module("mean", mean_.emplace(model));
  if (parts.best) add_module("best", best_.emplace(model));
}

}  // namespace headway::inline v0::internal

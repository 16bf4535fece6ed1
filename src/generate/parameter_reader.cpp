#include "generate/parameter_reader.h"

#include "nn/quantized_product.h"

namespace headway::inline v0::internal {

Tensor joined_biases(const std::vector<Tensor>& biases, const std::vector<std::int64_t>& sizes, const Tensor& beside) {
  std::vector<Tensor> all;
  bool has_one = false;
  const DType dtype = computing_dtype(beside.dtype());
  for (std::size_t i = 0; i < biases.size(); ++i) {
    has_one = has_one || biases[i].defined();
    all.push_back(biases[i].defined() ? biases[i] : Tensor::zeros({sizes[i]}, dtype, beside.device()));
  }
  if (!has_one) return {};
  return all.size() == 1 ? all.front() : concat(all);
}

PackedWeight pack_rows(const Tensor& weight, const Tensor& scales, const Tensor& bias) {
  return scales.defined() ? pack_weight({weight, scales}, bias) : pack_weight(weight, bias);
}

Tensor ParameterReader::find(const std::string& name) const {
  const auto found = state_.find(prefix_ + name);
  return found == state_.end() ? Tensor() : found->second.detach();
}

PackedWeight ParameterReader::packed(const std::string& name) const {
  return pack_rows(get(name + ".weight"), find(name + ".weight_scale"), find(name + ".bias"));
}

WeightParts ParameterReader::joined(const std::vector<std::string>& names) const {
  if (names.size() == 1) return {packed(names.front())};
  std::vector<Tensor> weights, scales, biases;
  std::vector<std::int64_t> sizes;
  for (const std::string& name : names) {
    weights.push_back(get(name + ".weight"));
    scales.push_back(find(name + ".weight_scale"));
    biases.push_back(find(name + ".bias"));
    sizes.push_back(weights.back().size(0));
  }
  const Tensor& first = weights.front();
  if (first.device().is_cpu() && item_size(first.dtype()) == 2) {
    WeightParts parts;
    for (std::size_t i = 0; i < names.size(); ++i) parts.push_back(pack_weight(weights[i], biases[i]));
    return parts;
  }
  return {pack_rows(concat(weights), scales.front().defined() ? concat(scales) : Tensor(),
                    joined_biases(biases, sizes, first))};
}

StepNormWeights ParameterReader::norm(const std::string& name, NormKind kind, double epsilon) const {
  StepNormWeights norm = {.kind = kind == NormKind::layer ? StepNorm::layer : StepNorm::rms,
                          .weight = get(name + ".weight").contiguous(),
                          .bias = find(name + ".bias"),
                          .epsilon = epsilon};
  if (kind == NormKind::rms_plus_one) norm.weight = add(norm.weight, 1.0);
  return norm;
}

}  // namespace headway::inline v0::internal

// Parameters of a model by their names, as steps of decoding read them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "generate/decoder_weights.h"
#include "headway/module.h"

namespace headway::inline v0::internal {

// Biases of some products end to end, zeros where one has none; undefined where none has.
Tensor joined_biases(const std::vector<Tensor>& biases, const std::vector<std::int64_t>& sizes, const Tensor& beside);

// Of a weight and, where it is in 8 bits, the scales of its rows.
PackedWeight pack_rows(const Tensor& weight, const Tensor& scales, const Tensor& bias);

class ParameterReader {
 public:
  // Names begin with `prefix`.
  ParameterReader(const StateDict& state, std::string prefix) : state_(state), prefix_(std::move(prefix)) {}

  Tensor get(const std::string& name) const { return state_.at(prefix_ + name).detach(); }
  // Undefined where there is none.
  Tensor find(const std::string& name) const;
  Device device() const { return state_.begin()->second.device(); }
  // name.weight and, where it is there, name.bias.
  PackedWeight packed(const std::string& name) const;
  // Several as one product, except for 16-bit weights of the CPU, which are left where they lie.
  WeightParts joined(const std::vector<std::string>& names) const;
  StepNormWeights norm(const std::string& name, NormKind kind, double epsilon) const;

 private:
  const StateDict& state_;
  std::string prefix_;
};

}  // namespace headway::inline v0::internal

// What the training loop shares with gradient_norms().
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headway/module.h"
#include "headway/optimizer.h"

namespace headway::inline v0::internal {

// The layer that a parameter belongs to: its name up to the first number, as "encoder.layers.0" of
// "encoder.layers.0.linear1.weight"; without a number up to the last dot; without a dot all of it.
std::string layer_of(std::string_view parameter);

// The layers of all parameters, each once, in order.
std::vector<std::string> layers_of(const std::vector<NamedTensor>& parameters);

// The norms of dense tensors on one device.
std::vector<double> norms_of(const std::vector<Tensor>& gradients);

// The norms of layers and of all, and the bad ones, from those of the parameters.
GradientNorms joined_norms(std::vector<NamedNorm> parameters);

// The factor by which gradients of this joint norm are multiplied; torch's formula.
double clipping_factor(double norm, double max_norm);

}  // namespace headway::inline v0::internal

// Gated outputs of a linear layer.
#pragma once

#include "headway/activation.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal::cpu {

// result (rows, hidden) = activation(first half of y) * second half: y (rows, 2 * hidden), whose first half is changed.
void gate(const Tensor& y, Activation activation, const Tensor& result);

}  // namespace headway::inline v0::internal::cpu

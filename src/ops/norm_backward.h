// The gradients of layer_norm() and rms_norm().
#pragma once

#include "backend/registry.h"
#include "ops/dense.h"

namespace headway::inline v0::internal {

struct NormBackward {
  Saved x;
  Saved weight;
  Tensor mean;            // (rows); undefined for rms_norm()
  Tensor inverse;         // (rows)
  bool has_bias = false;  // whether a bias was recorded after x and the weight

  Tensors operator()(BackwardCall& call) const {
    const Tensor d_y = take_dense(call.d_outputs[0]);
    const Tensor input = dense(x.get());
    NormGradients gradients;
    if (call.wants(0)) gradients.x = reuse(d_y);
    if (call.wants(1)) gradients.weight = Tensor::empty({input.size(-1)}, input.dtype(), input.device());
    if (has_bias && call.wants(2)) gradients.bias = Tensor::empty({input.size(-1)}, input.dtype(), input.device());
    backend_of(input).norm_backward({input, dense(weight.get()), mean, inverse, d_y}, gradients);
    if (has_bias) return {gradients.x, gradients.weight, gradients.bias};
    return {gradients.x, gradients.weight};
  }
};

}  // namespace headway::inline v0::internal

// Activations of one number.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

#include "headway/activation.h"

namespace headway::inline v0::internal::cuda {

template <typename Real>
__device__ Real sigmoid_of(Real x) {
  return 1 / (1 + ::exp(-x));
}

// NaN gives NaN; the infinities give what the formula gives.
template <typename Real>
__device__ Real activated(Activation activation, Real x) {
  switch (activation) {
    case Activation::relu:
      return x < 0 ? Real(0) : x;
    case Activation::gelu:
      return x * normcdf(x);
    case Activation::gelu_tanh: {
      // x (1 + tanh(v / 2)) / 2 is x sigmoid(v), and that does not cancel. Beyond 50 the sigmoid is 0 or 1.
      const Real bounded = fmin(fmax(x, Real(-50)), Real(50));
      return x * sigmoid_of(Real(1.59576912160573071176) * (bounded + Real(0.044715) * bounded * bounded * bounded));
    }
    case Activation::silu:
      return x * sigmoid_of(x);
    case Activation::tanh:
      return ::tanh(x);
    case Activation::sigmoid:
      return sigmoid_of(x);
    case Activation::quick_gelu:
      return x * sigmoid_of(Real(1.702) * x);
    default:
      return x;
  }
}

}  // namespace headway::inline v0::internal::cuda

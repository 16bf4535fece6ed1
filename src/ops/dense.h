// Tensors and gradients whose elements lie one after the other.
#pragma once

#include <utility>

#include "core/autograd.h"

namespace headway::inline v0::internal {

// The tensor with its elements in row-major order; a copy is not recorded, and an undefined tensor stays undefined.
inline Tensor dense(const Tensor& tensor) {
  return tensor.defined() && !tensor.is_contiguous() ? tensor.detach().contiguous() : tensor;
}

// A gradient taken out of a BackwardCall, in row-major order, so that is_uniquely_owned() can be true of it.
inline Tensor take_dense(Tensor& d_output) {
  Tensor taken = std::exchange(d_output, Tensor());
  return taken.is_contiguous() ? taken : taken.contiguous();
}

// Memory of a gradient's shape and dtype: its own where it is uniquely owned. Both dense.
inline Tensor reuse(const Tensor& gradient) {
  return is_uniquely_owned(gradient) ? gradient : Tensor::empty(gradient.shape(), gradient.dtype(), gradient.device());
}

}  // namespace headway::inline v0::internal

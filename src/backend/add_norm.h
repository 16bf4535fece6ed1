// A residual connection and its norm as separate operations, for devices and shapes without a fused kernel.
#pragma once

#include "backend/backend.h"

namespace headway::inline v0::internal {

inline std::byte* add_norm_bytes(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

// result = a + b, all dense and of one dtype; result may be a or b.
inline void add_dense(Backend& backend, const Tensor& a, const Tensor& b, const Tensor& result) {
  BinaryTask task = {.operation = Binary::add, .dtype = a.dtype(), .columns = a.element_count()};
  task.a = add_norm_bytes(a);
  task.b = add_norm_bytes(b);
  task.result = add_norm_bytes(result);
  if (task.columns > 0) backend.binary(task);
}

// result = base + dropout(x), or only the dropout where base is undefined; all dense and of one dtype.
inline void drop_dense(Backend& backend, const Tensor& base, const Tensor& x, const ElementDropout& rule,
                       const Tensor& result) {
  backend.dropout({.dtype = x.dtype(),
                   .count = x.element_count(),
                   .base = base.defined() ? add_norm_bytes(base) : nullptr,
                   .x = add_norm_bytes(x),
                   .result = add_norm_bytes(result),
                   .rule = rule});
}

// Backend::add_norm() by dropout() and norm().
inline void add_norm_in_steps(Backend& backend, const AddNormInputs& inputs, const Tensor& sum,
                              const NormResult& result) {
  if (inputs.rule.threshold == 0) {
    add_dense(backend, inputs.x, inputs.y, sum);
  } else {
    drop_dense(backend, inputs.x, inputs.y, inputs.rule, sum);
  }
  backend.norm(sum, inputs.weight, inputs.bias, inputs.epsilon, result);
}

// Backend::add_norm_backward() by norm_backward() and dropout().
inline void add_norm_backward_in_steps(Backend& backend, const AddNormBackwardInputs& inputs,
                                       const AddNormGradients& gradients) {
  const Tensor& d_sum = gradients.x.defined() ? gradients.x : gradients.y;
  backend.norm_backward(inputs.norm, {d_sum, gradients.weight, gradients.bias});
  if (!d_sum.defined()) return;
  if (inputs.d_sum.defined()) add_dense(backend, d_sum, inputs.d_sum, d_sum);
  if (gradients.y.defined()) drop_dense(backend, {}, d_sum, inputs.rule, gradients.y);
}

}  // namespace headway::inline v0::internal

// Activations: relu, gelu, silu, tanh, sigmoid.
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// d_x from the gradient and what was kept: the output or x, by slope_from_output().
Tensor activation_gradient(Activation activation, Tensor& d_output, const Tensor& kept) {
  const Tensor d = take_dense(d_output);
  const Tensor d_x = reuse(d);
  const Tensor saved = dense(kept);
  backend_of(d).activation_backward({.activation = activation,
                                     .dtype = d.dtype(),
                                     .rows = 1,
                                     .columns = d.element_count(),
                                     .d_after = bytes_of(d),
                                     .saved = bytes_of(saved),
                                     .d_before = bytes_of(d_x)});
  return d_x;
}

Tensor activate(const char* name, const Tensor& x, Activation activation) {
  check_floating(name, "x", x);
  if (activation == Activation::none) return x;
  const Tensor whole = dense(x);
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend_of(x).activate({.activation = activation,
                          .dtype = x.dtype(),
                          .count = x.element_count(),
                          .x = bytes_of(whole),
                          .result = bytes_of(result)});
  if (needs_gradient(x)) {
    record(name, {x}, {result},
           [activation, kept = Saved(name, slope_from_output(activation) ? result : x)](BackwardCall& call) {
             return Tensors{activation_gradient(activation, call.d_outputs[0], kept.get())};
           });
  }
  return result;
}

}  // namespace
}  // namespace internal

Tensor activate(const Tensor& x, Activation activation) { return internal::activate("activate", x, activation); }

Tensor relu(const Tensor& x) { return internal::activate("relu", x, Activation::relu); }

Tensor gelu(const Tensor& x, Gelu form) {
  return internal::activate("gelu", x, form == Gelu::tanh ? Activation::gelu_tanh : Activation::gelu);
}

Tensor silu(const Tensor& x) { return internal::activate("silu", x, Activation::silu); }

Tensor tanh(const Tensor& x) { return internal::activate("tanh", x, Activation::tanh); }

Tensor sigmoid(const Tensor& x) { return internal::activate("sigmoid", x, Activation::sigmoid); }

}  // namespace headway::inline v0

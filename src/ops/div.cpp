// div(): quotients of tensors. The gradient of y = a / b is d / b for a, and -(d / b) y for b.
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

struct DivBackward {
  Saved b;         // the divisor
  Saved quotient;  // where the divisor's gradient is wanted
  Shape a_shape, b_shape;

  Tensors operator()(BackwardCall& call) const {
    const Tensor d = take_dense(call.d_outputs[0]);
    const Tensor d_a = reuse(d);
    combine(Binary::divide, d, b.get(), d_a);
    Tensors gradients(2);
    if (call.wants(1)) {
      const Tensor d_b = Tensor::empty(d_a.shape(), d_a.dtype(), d_a.device());
      combine(Binary::multiply, d_a, quotient.get(), d_b);
      scale_into(d_b, -1.0, d_b);
      gradients[1] = broadcast_sum(d_b, b_shape);
    }
    if (call.wants(0)) gradients[0] = broadcast_sum(d_a, a_shape);
    return gradients;
  }
};

}  // namespace
}  // namespace internal

Tensor div(const Tensor& a, const Tensor& b) {
  using internal::needs_gradient, internal::Saved;
  Tensor result = internal::combined("div", internal::Binary::divide, a, b);
  if (needs_gradient(a, b)) {
    internal::record("div", {a, b}, {result},
                     internal::DivBackward{.b = Saved("div", b),
                                           .quotient = needs_gradient(b) ? Saved("div", result) : Saved(),
                                           .a_shape = a.shape(),
                                           .b_shape = b.shape()});
  }
  return result;
}

}  // namespace headway::inline v0

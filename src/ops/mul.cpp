// mul(): the gradient of each factor is the output's gradient times the other factor.
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// Each factor is kept for the other's gradient, where that is wanted.
struct MulBackward {
  Saved a, b;
  Shape a_shape, b_shape;

  Tensors operator()(BackwardCall& call) const {
    Tensor d = take_dense(call.d_outputs[0]);
    Tensors gradients(2);
    if (call.wants(0)) {
      const Tensor d_a = call.wants(1) ? Tensor::empty(d.shape(), d.dtype(), d.device()) : reuse(d);
      combine(Binary::multiply, d, b.get(), d_a);
      gradients[0] = broadcast_sum(d_a, a_shape);
    }
    if (call.wants(1)) {
      const Tensor d_b = reuse(d);
      combine(Binary::multiply, d, a.get(), d_b);
      gradients[1] = broadcast_sum(d_b, b_shape);
    }
    return gradients;
  }
};

}  // namespace
}  // namespace internal

Tensor mul(const Tensor& a, const Tensor& b) {
  using internal::needs_gradient, internal::Saved;
  Tensor result = internal::combined("mul", internal::Binary::multiply, a, b);
  if (needs_gradient(a, b)) {
    internal::record("mul", {a, b}, {result},
                     internal::MulBackward{.a = needs_gradient(b) ? Saved("mul", a) : Saved(),
                                           .b = needs_gradient(a) ? Saved("mul", b) : Saved(),
                                           .a_shape = a.shape(),
                                           .b_shape = b.shape()});
  }
  return result;
}

}  // namespace headway::inline v0

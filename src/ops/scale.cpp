// scale(): a product with a plain number.
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {

Tensor scale(const Tensor& x, double factor) {
  internal::check_floating("scale", "x", x);
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  internal::scale_into(x, factor, result);
  if (internal::needs_gradient(x)) {
    internal::record("scale", {x}, {result}, [factor](internal::BackwardCall& call) {
      const Tensor d = internal::take_dense(call.d_outputs[0]);
      const Tensor d_x = internal::reuse(d);
      internal::scale_into(d, factor, d_x);
      return internal::Tensors{d_x};
    });
  }
  return result;
}

}  // namespace headway::inline v0

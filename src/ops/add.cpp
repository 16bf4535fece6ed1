// add() and sub(): the gradient of the sum is passed on as it is.
#include <utility>

#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// sign * sum over what was broadcast; writes over the gradient only where it is uniquely owned.
Tensor signed_gradient(Tensor gradient, const Shape& shape, double sign) {
  Tensor sum = broadcast_sum(gradient, shape);
  gradient = Tensor();
  if (sign > 0) return sum;
  if (!sum.is_contiguous()) sum = sum.contiguous();
  const Tensor result = reuse(sum);
  scale_into(sum, sign, result);
  return result;
}

Tensor add_signed(const char* name, const Tensor& a, const Tensor& b, double sign) {
  Tensor result = combined(name, sign > 0 ? Binary::add : Binary::subtract, a, b);
  if (needs_gradient(a, b)) {
    record(name, {a, b}, {result}, [a_shape = a.shape(), b_shape = b.shape(), sign](BackwardCall& call) {
      Tensor d = std::exchange(call.d_outputs[0], Tensor());
      Tensors gradients(2);
      if (call.wants(0)) gradients[0] = broadcast_sum(d, a_shape);
      if (call.wants(1)) gradients[1] = signed_gradient(std::move(d), b_shape, sign);
      return gradients;
    });
  }
  return result;
}

}  // namespace
}  // namespace internal

Tensor add(const Tensor& a, const Tensor& b) { return internal::add_signed("add", a, b, 1.0); }

Tensor sub(const Tensor& a, const Tensor& b) { return internal::add_signed("sub", a, b, -1.0); }

}  // namespace headway::inline v0

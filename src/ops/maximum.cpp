// maximum() and minimum(): the gradient goes to the operand that was taken.
#include "headway/ops.h"
#include "ops/choice.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

struct MaximumBackward {
  Binary operation;
  Saved a, b;

  Tensors operator()(BackwardCall& call) const {
    const Tensor d = take_dense(call.d_outputs[0]);
    const Tensor mask = operation == Binary::maximum ? ge(a.get(), b.get()) : le(a.get(), b.get());
    Tensors gradients(2);
    if (call.wants(0)) {
      gradients[0] = broadcast_sum(choose(mask, {.tensor = d}, {}, d.shape(), d.dtype()), a.get().shape());
    }
    if (call.wants(1)) {
      gradients[1] = broadcast_sum(choose(mask, {}, {.tensor = d}, d.shape(), d.dtype()), b.get().shape());
    }
    return gradients;
  }
};

Tensor extreme_of_two(const char* name, Binary operation, const Tensor& a, const Tensor& b) {
  Tensor result = combined(name, operation, a, b);
  if (needs_gradient(a, b)) record(name, {a, b}, {result}, MaximumBackward{operation, Saved(name, a), Saved(name, b)});
  return result;
}

}  // namespace
}  // namespace internal

Tensor maximum(const Tensor& a, const Tensor& b) {
  return internal::extreme_of_two("maximum", internal::Binary::maximum, a, b);
}

Tensor minimum(const Tensor& a, const Tensor& b) {
  return internal::extreme_of_two("minimum", internal::Binary::minimum, a, b);
}

}  // namespace headway::inline v0

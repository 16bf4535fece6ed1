// dropout() and add_dropout(): only the rule is saved, from which the backward recomputes the same mask.
#include <utility>

#include "backend/add_norm.h"
#include "base/check.h"
#include "core/random.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {

ElementDropout checked_dropout(const char* function, double probability, std::uint64_t seed) {
  check(probability >= 0.0 && probability < 1.0, function, ": probability is ", probability, ", expected 0 <= p < 1");
  return ElementDropout::make(probability, seed);
}

namespace {

Tensor dropout_gradient(Tensor d, const ElementDropout& rule) {
  const Tensor gradient = take_dense(d);
  const Tensor d_x = reuse(gradient);
  drop_dense(backend_of(gradient), {}, gradient, rule, d_x);
  return d_x;
}

}  // namespace
}  // namespace internal

Tensor dropout(const Tensor& x, double probability, std::uint64_t seed) {
  internal::check_floating("dropout", "x", x);
  const auto rule = internal::checked_dropout("dropout", probability, seed);
  if (rule.threshold == 0) return x;
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  internal::drop_dense(internal::backend_of(x), {}, internal::dense(x), rule, result);
  if (internal::needs_gradient(x)) {
    internal::record("dropout", {x}, {result}, [rule](internal::BackwardCall& call) {
      return internal::Tensors{internal::dropout_gradient(std::exchange(call.d_outputs[0], Tensor()), rule)};
    });
  }
  return result;
}

Tensor add_dropout(const Tensor& x, const Tensor& y, double probability, std::uint64_t seed) {
  internal::check_floating("add_dropout", "x", x);
  internal::check_floating("add_dropout", "y", y);
  internal::check(x.dtype() == y.dtype(), "add_dropout: x is ", x, " and y is ", y, ", expected one dtype");
  internal::check_same_device("add_dropout", "x", x, "y", y);
  const auto rule = internal::checked_dropout("add_dropout", probability, seed);
  if (rule.threshold == 0 || !(x.shape() == y.shape())) return add(x, dropout(y, probability, seed));
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  internal::drop_dense(internal::backend_of(x), internal::dense(x), internal::dense(y), rule, result);
  if (internal::needs_gradient(x, y)) {
    internal::record("add_dropout", {x, y}, {result}, [rule](internal::BackwardCall& call) {
      Tensor d = std::exchange(call.d_outputs[0], Tensor());
      internal::Tensors gradients(2);
      if (call.wants(0)) gradients[0] = d;
      if (call.wants(1)) gradients[1] = internal::dropout_gradient(std::move(d), rule);
      return gradients;
    });
  }
  return result;
}

}  // namespace headway::inline v0

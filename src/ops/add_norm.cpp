// add_dropout_norm(): a residual connection and the norm after it, which see each element once.
#include "backend/add_norm.h"

#include <utility>

#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/elementwise.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr const char* kAddNorm = "add_dropout_norm";

struct AddNormSaved {
  Saved sum;
  Saved weight;
  Tensor mean;     // (rows)
  Tensor inverse;  // (rows)
  ElementDropout rule;

  // The gradients where only the sum was used: those of an addition.
  Tensors of_sum(const Tensor& d_sum, const BackwardCall& call) const {
    Tensors gradients(4);
    if (call.wants(0)) gradients[0] = d_sum;
    if (call.wants(1) && rule.threshold == 0) gradients[1] = d_sum;
    if (call.wants(1) && rule.threshold != 0) {
      const Tensor d_dense = dense(d_sum);
      gradients[1] = Tensor::empty(d_dense.shape(), d_dense.dtype(), d_dense.device());
      drop_dense(backend_of(d_dense), {}, d_dense, rule, gradients[1]);
    }
    return gradients;
  }

  Tensors operator()(BackwardCall& call) const {
    Tensor d_sum = std::exchange(call.d_outputs[1], Tensor());
    if (!call.d_outputs[0].defined()) return of_sum(d_sum, call);
    const Tensor d_y = take_dense(call.d_outputs[0]);
    const Tensor& x = sum.get();
    const bool drops = rule.threshold != 0;
    AddNormGradients gradients;
    if (call.wants(0) || (call.wants(1) && !drops)) gradients.x = reuse(d_y);
    if (call.wants(1) && drops) gradients.y = Tensor::empty(x.shape(), x.dtype(), x.device());
    if (call.wants(2)) gradients.weight = Tensor::empty({x.size(-1)}, x.dtype(), x.device());
    if (call.wants(3)) gradients.bias = Tensor::empty({x.size(-1)}, x.dtype(), x.device());
    backend_of(x).add_norm_backward(
        {.norm = {x, dense(weight.get()), mean, inverse, d_y}, .d_sum = dense(d_sum), .rule = rule}, gradients);
    if (call.wants(1) && !drops) gradients.y = gradients.x;
    return {call.wants(0) ? gradients.x : Tensor(), gradients.y, gradients.weight, gradients.bias};
  }
};

// Throws unless x and y fit together.
void check_add_norm(const Tensor& x, const Tensor& y) {
  check_rows(kAddNorm, "x", x);
  check_rows(kAddNorm, "y", y);
  check(x.dtype() == y.dtype() && x.shape() == y.shape(), kAddNorm, ": x is ", x, " and y is ", y,
        ", expected one dtype and shape");
  check_same_device(kAddNorm, "x", x, "y", y);
}

}  // namespace
}  // namespace internal

AddNorm add_dropout_norm(const Tensor& x, const Tensor& y, const AddNormOptions& options) {
  using internal::kAddNorm;
  internal::check_add_norm(x, y);
  const auto rule = internal::checked_dropout(kAddNorm, options.probability, options.seed);
  internal::check_feature_parameter(kAddNorm, "weight", options.weight, x);
  internal::check_feature_parameter(kAddNorm, "bias", options.bias, x);
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.element_count() / x.size(-1);
  const DType statistics = internal::statistics_dtype(x.dtype());
  AddNorm made = {Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor::empty(x.shape(), x.dtype(), x.device())};
  const internal::NormResult result = {made.normed, Tensor::empty({rows}, statistics, x.device()),
                                       Tensor::empty({rows}, statistics, x.device())};
  internal::backend_of(x).add_norm({.x = internal::dense(x),
                                    .y = internal::dense(y),
                                    .rule = rule,
                                    .weight = internal::dense(options.weight),
                                    .bias = internal::dense(options.bias),
                                    .epsilon = options.epsilon},
                                   made.sum, result);
  if (internal::needs_gradient(x, y, options.weight, options.bias)) {
    internal::record(kAddNorm, {x, y, options.weight, options.bias}, {made.normed, made.sum},
                     internal::AddNormSaved{.sum = internal::Saved(kAddNorm, made.sum),
                                            .weight = internal::Saved(kAddNorm, options.weight),
                                            .mean = result.mean,
                                            .inverse = result.inverse,
                                            .rule = rule});
  }
  return made;
}

}  // namespace headway::inline v0

// layer_norm(): checks, allocates, calls the backend, records the gradient.
#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

using internal::BackwardCall;
using internal::NormResult;
using internal::Saved;
using internal::Tensors;

struct LayerNormSaved {
  Saved x;
  Saved weight;
  Tensor mean;     // (rows)
  Tensor inverse;  // (rows)
};

Tensors layer_norm_backward(const LayerNormSaved& saved, BackwardCall& call) {
  const Tensor d_y = internal::take_dense(call.d_outputs[0]);
  const Tensor x = internal::dense(saved.x.get());
  internal::NormGradients gradients;
  if (call.wants(0)) gradients.x = internal::reuse(d_y);
  if (call.wants(1)) gradients.weight = Tensor::empty({x.size(-1)}, x.dtype(), x.device());
  if (call.wants(2)) gradients.bias = Tensor::empty({x.size(-1)}, x.dtype(), x.device());
  internal::backend_of(x).norm_backward({x, internal::dense(saved.weight.get()), saved.mean, saved.inverse, d_y},
                                        gradients);
  return {gradients.x, gradients.weight, gradients.bias};
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  constexpr const char* kName = "layer_norm";
  internal::check_rows(kName, "x", x);
  internal::check_feature_parameter(kName, "weight", weight, x);
  internal::check_feature_parameter(kName, "bias", bias, x);
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.element_count() / x.size(-1);
  const DType statistics = internal::statistics_dtype(x.dtype());
  const NormResult result = {Tensor::empty(x.shape(), x.dtype(), x.device()),
                             Tensor::empty({rows}, statistics, x.device()),
                             Tensor::empty({rows}, statistics, x.device())};
  internal::backend_of(x).norm(internal::dense(x), internal::dense(weight), internal::dense(bias), epsilon, result);
  if (internal::needs_gradient(x, weight, bias)) {
    LayerNormSaved saved = {Saved(kName, x), Saved(kName, weight), result.mean, result.inverse};
    internal::record(kName, {x, weight, bias}, {result.y},
                     [saved = std::move(saved)](BackwardCall& call) { return layer_norm_backward(saved, call); });
  }
  return result.y;
}

}  // namespace headway::inline v0

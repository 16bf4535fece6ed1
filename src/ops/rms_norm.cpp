// rms_norm(): checks, allocates, calls the backend, records the gradient.
#include <limits>

#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

using internal::BackwardCall;
using internal::NormResult;
using internal::Saved;
using internal::Tensors;

// The epsilon of the type that is computed in, as in torch: float32's for 16-bit rows.
double machine_epsilon(DType dtype) {
  return dtype == DType::float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

struct RmsNormSaved {
  Saved x;
  Saved weight;
  Tensor inverse;  // (rows)
};

Tensors rms_norm_backward(const RmsNormSaved& saved, BackwardCall& call) {
  const Tensor d_y = internal::take_dense(call.d_outputs[0]);
  const Tensor x = internal::dense(saved.x.get());
  internal::NormGradients gradients;
  if (call.wants(0)) gradients.x = internal::reuse(d_y);
  if (call.wants(1)) gradients.weight = Tensor::empty({x.size(-1)}, x.dtype(), x.device());
  internal::backend_of(x).norm_backward({x, internal::dense(saved.weight.get()), Tensor(), saved.inverse, d_y},
                                        gradients);
  return {gradients.x, gradients.weight};
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, std::optional<double> epsilon) {
  constexpr const char* kName = "rms_norm";
  internal::check_rows(kName, "x", x);
  internal::check_feature_parameter(kName, "weight", weight, x);
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.element_count() / x.size(-1);
  const NormResult result = {Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor(),
                             Tensor::empty({rows}, internal::statistics_dtype(x.dtype()), x.device())};
  internal::backend_of(x).norm(internal::dense(x), internal::dense(weight), Tensor(),
                               epsilon.value_or(machine_epsilon(x.dtype())), result);
  if (internal::needs_gradient(x, weight)) {
    RmsNormSaved saved = {Saved(kName, x), Saved(kName, weight), result.inverse};
    internal::record(kName, {x, weight}, {result.y},
                     [saved = std::move(saved)](BackwardCall& call) { return rms_norm_backward(saved, call); });
  }
  return result.y;
}

}  // namespace headway::inline v0

// layer_norm(): checks, allocates, calls the backend, records the gradient.
#include "headway/ops.h"
#include "ops/norm_backward.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  using internal::Saved;
  constexpr const char* kName = "layer_norm";
  internal::check_rows(kName, "x", x);
  internal::check_feature_parameter(kName, "weight", weight, x);
  internal::check_feature_parameter(kName, "bias", bias, x);
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.element_count() / x.size(-1);
  const DType statistics = internal::statistics_dtype(x.dtype());
  const internal::NormResult result = {Tensor::empty(x.shape(), x.dtype(), x.device()),
                                       Tensor::empty({rows}, statistics, x.device()),
                                       Tensor::empty({rows}, statistics, x.device())};
  internal::backend_of(x).norm(internal::dense(x), internal::dense(weight), internal::dense(bias), epsilon, result);
  if (internal::needs_gradient(x, weight, bias)) {
    internal::record(kName, {x, weight, bias}, {result.y},
                     internal::NormBackward{.x = Saved(kName, x),
                                            .weight = Saved(kName, weight),
                                            .mean = result.mean,
                                            .inverse = result.inverse,
                                            .has_bias = true});
  }
  return result.y;
}

}  // namespace headway::inline v0

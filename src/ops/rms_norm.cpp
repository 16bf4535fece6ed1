// rms_norm(): checks, allocates, calls the backend, records the gradient.
#include <limits>

#include "headway/ops.h"
#include "ops/norm_backward.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

// The epsilon of the type that is computed in, as in torch: float32's for 16-bit rows.
double machine_epsilon(DType dtype) {
  return dtype == DType::float64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& weight, std::optional<double> epsilon) {
  using internal::Saved;
  constexpr const char* kName = "rms_norm";
  internal::check_rows(kName, "x", x);
  internal::check_feature_parameter(kName, "weight", weight, x);
  const std::int64_t rows = x.size(-1) == 0 ? 0 : x.element_count() / x.size(-1);
  const internal::NormResult result = {Tensor::empty(x.shape(), x.dtype(), x.device()), Tensor(),
                                       Tensor::empty({rows}, internal::statistics_dtype(x.dtype()), x.device())};
  internal::backend_of(x).norm(internal::dense(x), internal::dense(weight), Tensor(),
                               epsilon.value_or(machine_epsilon(x.dtype())), result);
  if (internal::needs_gradient(x, weight)) {
    internal::record(kName, {x, weight}, {result.y},
                     internal::NormBackward{
                         .x = Saved(kName, x), .weight = Saved(kName, weight), .mean = {}, .inverse = result.inverse});
  }
  return result.y;
}

}  // namespace headway::inline v0

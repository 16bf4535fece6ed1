#include "nn/initial_values.h"

#include <cmath>
#include <utility>

#include "headway/random.h"

namespace headway::inline v0::internal {
namespace {

thread_local bool skipping = false;

// Inputs plus outputs of a tensor [out, in, receptive field...].
double fans(const Shape& shape) {
  double field = 1;
  for (int dim = 2; dim < shape.rank(); ++dim) field *= static_cast<double>(shape[dim]);
  return static_cast<double>(shape[0] + shape[1]) * field;
}

}  // namespace

bool SkipInitialValues::set_skipping(bool on) { return std::exchange(skipping, on); }

bool skips_initial_values() { return skipping; }

Tensor constant(const Shape& shape, double value, DType dtype) {
  return skipping ? Tensor::empty(shape, dtype) : Tensor::full(shape, value, dtype);
}

Tensor xavier_uniform(const Shape& shape, DType dtype) {
  if (skipping) return Tensor::empty(shape, dtype);
  const double bound = fans(shape) > 0 ? std::sqrt(6.0 / fans(shape)) : 0.0;
  return Tensor::uniform(shape, -bound, bound, next_random_seed(), dtype);
}

Tensor xavier_normal(const Shape& shape, DType dtype) {
  if (skipping) return Tensor::empty(shape, dtype);
  const double deviation = fans(shape) > 0 ? std::sqrt(2.0 / fans(shape)) : 0.0;
  Tensor values = normal(shape, DType::float64);
  double* data = values.data<double>();
  for (std::int64_t i = 0; i < values.element_count(); ++i) data[i] *= deviation;
  return values.to(dtype);
}

Tensor fan_in_uniform(const Shape& shape, std::int64_t fan_in, DType dtype) {
  if (skipping) return Tensor::empty(shape, dtype);
  const double bound = fan_in > 0 ? 1.0 / std::sqrt(static_cast<double>(fan_in)) : 0.0;
  return Tensor::uniform(shape, -bound, bound, next_random_seed(), dtype);
}

Tensor normal(const Shape& shape, DType dtype) {
  return skipping ? Tensor::empty(shape, dtype) : Tensor::randn(shape, next_random_seed(), dtype);
}

}  // namespace headway::inline v0::internal

// sum() and mean(): the gradient is one value, expanded.
#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The shape with size 1 in every summed dimension.
Shape kept_shape(const char* function, const Tensor& x, const std::vector<int>& dims) {
  Shape shape = x.shape();
  unsigned seen = 0;
  for (const int given : dims) {
    const int dim = checked_dim(function, given, x.rank());
    check((seen >> dim & 1) == 0, function, ": dimension ", given, " comes twice");
    seen |= 1u << dim;
    shape[dim] = 1;
  }
  return shape;
}

// The shape without the summed dimensions.
Shape reduced_shape(const Tensor& x, const std::vector<int>& dims) {
  unsigned seen = 0;
  for (const int given : dims) seen |= 1u << checked_dim("sum", given, x.rank());
  Shape shape;
  for (int dim = 0; dim < x.rank(); ++dim) {
    if ((seen >> dim & 1) == 0) shape.push_back(x.shape()[dim]);
  }
  return shape;
}

std::vector<int> all_dims(const Tensor& x) {
  std::vector<int> dims;
  for (int dim = 0; x.defined() && dim < x.rank(); ++dim) dims.push_back(dim);
  return dims;
}

// factor * the sum of x over what has size 1 in `kept`, not recorded.
Tensor scaled_sum(const Tensor& x, const Shape& kept, double factor) {
  if (factor == 1.0) return x.shape() == kept ? x.clone() : broadcast_sum(x, kept);
  // A 16-bit sum could overflow where the mean does not.
  const bool wide = x.dtype() == DType::float64 || x.dtype() == DType::float32;
  const Tensor total = broadcast_sum(wide ? x : x.to(DType::float32), kept);
  Tensor scaled = Tensor::empty(kept, total.dtype(), total.device());
  scale_into(total, factor, scaled);
  return scaled.to(x.dtype());
}

// Whether the sum is divided by the number of elements, as for mean().
enum class Divide { no, by_count };

Tensor reduce(const char* name, const Tensor& x, const std::vector<int>& dims, bool keep_dims, Divide divide) {
  check_floating(name, "x", x);
  const Shape kept = kept_shape(name, x, dims);
  double factor = 1.0;
  if (divide == Divide::by_count) {
    std::int64_t count = 1;
    for (int dim = 0; dim < x.rank(); ++dim) count *= kept[dim] == x.shape()[dim] ? 1 : x.shape()[dim];
    factor = 1.0 / static_cast<double>(count);  // infinite for nothing, whose sum of 0 then gives NaN
  }
  Tensor result = scaled_sum(x.detach(), kept, factor);
  if (!keep_dims) result = result.view(reduced_shape(x, dims));
  if (needs_gradient(x)) {
    record(name, {x}, {result}, [shape = x.shape(), kept, factor](BackwardCall& call) {
      Tensor d = take_dense(call.d_outputs[0]);
      if (factor != 1.0) {
        const Tensor scaled = Tensor::empty(d.shape(), d.dtype(), d.device());
        scale_into(d, factor, scaled);
        d = scaled;
      }
      return Tensors{d.view(kept).expand(shape)};
    });
  }
  return result;
}

}  // namespace
}  // namespace internal

using internal::Divide;

Tensor sum(const Tensor& x) { return internal::reduce("sum", x, internal::all_dims(x), false, Divide::no); }

Tensor mean(const Tensor& x) { return internal::reduce("mean", x, internal::all_dims(x), false, Divide::by_count); }

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keep_dims) {
  return internal::reduce("sum", x, dims, keep_dims, Divide::no);
}

Tensor mean(const Tensor& x, const std::vector<int>& dims, bool keep_dims) {
  return internal::reduce("mean", x, dims, keep_dims, Divide::by_count);
}

}  // namespace headway::inline v0

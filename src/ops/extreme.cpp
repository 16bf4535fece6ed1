// max(), min(), argmax() and argmin(): the gradient goes to the element that was found.
#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// x seen as (outer, middle, inner), the extreme being taken over the middle.
struct ExtremeSizes {
  std::int64_t outer = 1, middle = 1, inner = 1;
  Shape result = {};
};

ExtremeSizes sizes_of_all(const char* name, const Tensor& x) {
  check(x.defined(), name, ": x is undefined, expected a tensor");
  check(x.element_count() > 0, name, ": x is ", x, ", which has no elements");
  return {.middle = x.element_count()};
}

ExtremeSizes sizes_along(const char* name, const Tensor& x, int dim, bool keep_dims) {
  check(x.defined(), name, ": x is undefined, expected a tensor");
  const int along = checked_dim(name, dim, x.rank());
  check(x.shape()[along] > 0, name, ": dimension ", dim, " of ", x, " has no elements");
  ExtremeSizes sizes;
  for (int other = 0; other < x.rank(); ++other) {
    const std::int64_t size = x.shape()[other];
    (other < along ? sizes.outer : other == along ? sizes.middle : sizes.inner) *= size;
    if (other != along) {
      sizes.result.push_back(size);
    } else if (keep_dims) {
      sizes.result.push_back(1);
    }
  }
  return sizes;
}

// The indices, and the values where they are wanted.
Tensor find_extreme(bool greatest, const Tensor& x, const ExtremeSizes& sizes, const Tensor& values) {
  const Tensor indices = Tensor::empty(sizes.result, DType::int64, x.device());
  if (indices.element_count() == 0) return indices;
  const Tensor whole = dense(x);
  backend_of(x).extreme({.greatest = greatest,
                         .dtype = x.dtype(),
                         .outer = sizes.outer,
                         .middle = sizes.middle,
                         .inner = sizes.inner,
                         .x = bytes_of(whole),
                         .indices = static_cast<std::int64_t*>(indices.raw_data()),
                         .values = values.defined() ? bytes_of(values) : nullptr});
  return indices;
}

Tensor extreme_value(const char* name, bool greatest, const Tensor& x, const ExtremeSizes& sizes) {
  Tensor values = Tensor::empty(sizes.result, x.dtype(), x.device());
  const Tensor indices = find_extreme(greatest, x, sizes, values);
  if (needs_gradient(x)) {
    record(name, {x}, {values}, [indices, sizes, shape = x.shape()](BackwardCall& call) {
      const Tensor d = take_dense(call.d_outputs[0]);
      const Tensor d_x = Tensor::zeros(shape, d.dtype(), d.device());
      if (d.element_count() == 0) return Tensors{d_x};
      backend_of(d).place({.dtype = d.dtype(),
                           .outer = sizes.outer,
                           .middle = sizes.middle,
                           .inner = sizes.inner,
                           .source = bytes_of(d),
                           .indices = static_cast<const std::int64_t*>(indices.raw_data()),
                           .target = bytes_of(d_x)});
      return Tensors{d_x};
    });
  }
  return values;
}

}  // namespace
}  // namespace internal

Tensor max(const Tensor& x) { return internal::extreme_value("max", true, x, internal::sizes_of_all("max", x)); }

Tensor min(const Tensor& x) { return internal::extreme_value("min", false, x, internal::sizes_of_all("min", x)); }

Tensor max(const Tensor& x, int dim, bool keep_dims) {
  return internal::extreme_value("max", true, x, internal::sizes_along("max", x, dim, keep_dims));
}

Tensor min(const Tensor& x, int dim, bool keep_dims) {
  return internal::extreme_value("min", false, x, internal::sizes_along("min", x, dim, keep_dims));
}

Tensor argmax(const Tensor& x) {
  return internal::find_extreme(true, x, internal::sizes_of_all("argmax", x), Tensor());
}

Tensor argmin(const Tensor& x) {
  return internal::find_extreme(false, x, internal::sizes_of_all("argmin", x), Tensor());
}

Tensor argmax(const Tensor& x, int dim, bool keep_dims) {
  return internal::find_extreme(true, x, internal::sizes_along("argmax", x, dim, keep_dims), Tensor());
}

Tensor argmin(const Tensor& x, int dim, bool keep_dims) {
  return internal::find_extreme(false, x, internal::sizes_along("argmin", x, dim, keep_dims), Tensor());
}

}  // namespace headway::inline v0

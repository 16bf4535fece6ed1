// rotary(): pairs of features turned by their position; the gradient is turned back.
#include "base/check.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

RotaryOptions checked_options(const Tensor& x, RotaryOptions options) {
  constexpr std::int64_t kLastPosition = std::int64_t{1} << 53;  // beyond it positions are not exact as doubles
  check_floating("rotary", "x", x);
  check(x.rank() >= 2, "rotary: x is ", x, ", expected [..., length, head_dim]");
  if (options.dims == 0) options.dims = x.size(-1);
  check(options.dims >= 0 && options.dims <= x.size(-1), "rotary: dims is ", options.dims,
        ", expected at most x's head_dim ", x.size(-1));
  check(options.dims % 2 == 0, "rotary: dims is ", options.dims, ", expected an even number");
  check(options.base > 0, "rotary: base is ", options.base, ", expected a positive number");
  check(options.offset >= 0 && options.offset <= kLastPosition - x.size(-2), "rotary: offset is ", options.offset,
        ", expected from 0 up to 2^53 less x's length");
  return options;
}

// result = x with its pairs turned; result is dense and may be x.
void rotate_into(const Tensor& x, const RotaryOptions& options, bool backward, const Tensor& result) {
  const Tensor rows = x.stride(-1) == 1 || x.element_count() == 0 ? x : dense(x);
  backend_of(rows).rotary({.dtype = x.dtype(),
                           .shape = x.shape(),
                           .x_strides = rows.strides(),
                           .x = bytes_of(rows),
                           .result = bytes_of(result),
                           .options = options,
                           .backward = backward});
}

}  // namespace
}  // namespace internal

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  const RotaryOptions checked = internal::checked_options(x, options);
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  internal::rotate_into(x, checked, /*backward=*/false, result);
  if (internal::needs_gradient(x)) {
    internal::record("rotary", {x}, {result}, [checked](internal::BackwardCall& call) {
      const Tensor d = internal::take_dense(call.d_outputs[0]);
      const Tensor d_x = internal::reuse(d);
      internal::rotate_into(d, checked, /*backward=*/true, d_x);
      return internal::Tensors{d_x};
    });
  }
  return result;
}

}  // namespace headway::inline v0

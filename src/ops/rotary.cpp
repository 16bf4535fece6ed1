// rotary(): pairs of features turned by their position; the gradient is turned back.
#include <cmath>

#include "base/check.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::int64_t kLastPosition = std::int64_t{1} << 53;  // beyond it positions are not exact as doubles

// The positions in dense memory on x's device.
Tensor checked_positions(const Tensor& x, const RotaryOptions& options) {
  const Tensor& given = options.positions;
  check(given.dtype() == DType::int64 && (given.rank() == 1 || given.rank() == 2) && given.size(-1) == x.size(-2),
        "rotary: positions is ", given, ", expected int64[", x.size(-2), "] or int64[batch, ", x.size(-2), "]");
  check(given.rank() == 1 || (x.rank() >= 3 && (given.size(0) == x.size(0) || given.size(0) == 1)),
        "rotary: positions is ", given, ", expected x's batch, and x is ", x);
  check(options.offset == 0, "rotary: positions and offset are both given, expected one of them");
  if (given.device() == Device::cpu()) {  // those on a device are not read back
    const Tensor values = given.contiguous();
    for (std::int64_t i = 0; i < values.element_count(); ++i) {
      const std::int64_t position = values.data<std::int64_t>()[i];
      check(position >= 0 && position <= kLastPosition, "rotary: positions has ", position,
            ", expected from 0 up to 2^53");
    }
  }
  return given.to(x.device()).contiguous();
}

RotaryOptions checked_options(const Tensor& x, RotaryOptions options) {
  check_floating("rotary", "x", x);
  check(x.rank() >= 2, "rotary: x is ", x, ", expected [..., length, head_dim]");
  if (options.dims == 0) options.dims = x.size(-1);
  check(options.dims >= 0 && options.dims <= x.size(-1), "rotary: dims is ", options.dims,
        ", expected at most x's head_dim ", x.size(-1));
  check(options.dims % 2 == 0, "rotary: dims is ", options.dims, ", expected an even number");
  check(options.base > 0, "rotary: base is ", options.base, ", expected a positive number");
  check(options.offset >= 0 && options.offset <= kLastPosition - x.size(-2), "rotary: offset is ", options.offset,
        ", expected from 0 up to 2^53 less x's length");
  check(std::isfinite(options.factor), "rotary: factor is ", options.factor, ", expected a finite number");
  const std::int64_t half = options.dims / 2;
  if (options.frequencies.empty()) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(options.dims);
      options.frequencies.push_back(std::pow(options.base, exponent));
    }
  }
  check(static_cast<std::int64_t>(options.frequencies.size()) == half, "rotary: frequencies has ",
        options.frequencies.size(), " numbers, expected one for each of ", half, " pairs");
  if (options.positions.defined()) options.positions = checked_positions(x, options);
  return options;
}

// result = x with its pairs turned; result is dense and may be x.
void rotate_into(const Tensor& x, const RotaryOptions& options, bool backward, const Tensor& result) {
  const Tensor rows = x.stride(-1) == 1 || x.element_count() == 0 ? x : dense(x);
  RotaryProblem problem = {.dtype = x.dtype(),
                           .shape = x.shape(),
                           .x_strides = rows.strides(),
                           .x = bytes_of(rows),
                           .result = bytes_of(result),
                           .options = options,
                           .backward = backward};
  if (options.positions.defined()) {
    problem.positions = static_cast<const std::int64_t*>(options.positions.raw_data());
    problem.position_rows = options.positions.rank() == 2 ? options.positions.size(0) : 1;
  }
  backend_of(rows).rotary(problem);
}

}  // namespace
}  // namespace internal

Tensor rotary(const Tensor& x, const RotaryOptions& options) {
  const RotaryOptions checked = internal::checked_options(x, options);
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  internal::rotate_into(x, checked, /*backward=*/false, result);
  if (internal::needs_gradient(x)) {
    const internal::Saved positions("rotary", checked.positions);
    internal::record("rotary", {x}, {result}, [checked, positions](internal::BackwardCall& call) {
      if (positions.defined()) positions.get();  // throws where they have changed since
      const Tensor d = internal::take_dense(call.d_outputs[0]);
      const Tensor d_x = internal::reuse(d);
      internal::rotate_into(d, checked, /*backward=*/true, d_x);
      return internal::Tensors{d_x};
    });
  }
  return result;
}

}  // namespace headway::inline v0

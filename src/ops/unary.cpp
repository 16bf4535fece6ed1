// Functions of one tensor: sums, differences and quotients with a number, exp, log, sqrt, pow.
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// d_x from the dense gradient d of y = function(x), written over d where that is uniquely owned. `kept` is y, x, or
// nothing, by what kept_by() says.
Tensor unary_gradient(Unary operation, double number, const Tensor& d, const Tensor& kept) {
  if (operation == Unary::add) return d;
  // Not 0 * x^-1, which is NaN at 0.
  if (operation == Unary::power && number == 0) return Tensor::zeros(d.shape(), d.dtype(), d.device());
  const Tensor d_x = reuse(d);
  switch (operation) {
    case Unary::add:
      break;
    case Unary::subtract_from:
      scale_into(d, -1.0, d_x);
      break;
    case Unary::divide:
      map_into(Unary::divide, d, number, d_x);
      break;
    case Unary::divide_into: {  // -n / x^2
      combine(Binary::divide, d, kept, d_x);
      combine(Binary::divide, d_x, kept, d_x);
      scale_into(d_x, -number, d_x);
      break;
    }
    case Unary::exp:  // y
      combine(Binary::multiply, d, kept, d_x);
      break;
    case Unary::log:  // 1 / x
      combine(Binary::divide, d, kept, d_x);
      break;
    case Unary::sqrt:  // 1 / (2 y)
      combine(Binary::divide, d, kept, d_x);
      scale_into(d_x, 0.5, d_x);
      break;
    case Unary::power: {  // n x^(n - 1)
      const Tensor slope = Tensor::empty(d.shape(), d.dtype(), d.device());
      map_into(Unary::power, kept, number - 1, slope);
      scale_into(slope, number, slope);
      combine(Binary::multiply, d, slope, d_x);
      break;
    }
  }
  return d_x;
}

// What the gradient of y = function(x) needs.
enum class Kept { nothing, input, output };
Kept kept_by(Unary operation) {
  switch (operation) {
    case Unary::add:
    case Unary::subtract_from:
    case Unary::divide:
      return Kept::nothing;
    case Unary::exp:
    case Unary::sqrt:
      return Kept::output;
    default:
      return Kept::input;
  }
}

Tensor map(const char* name, Unary operation, const Tensor& x, double number = 0) {
  check_floating(name, "x", x);
  Tensor result = Tensor::empty(x.shape(), x.dtype(), x.device());
  map_into(operation, x, number, result);
  if (needs_gradient(x)) {
    const Kept kept = kept_by(operation);
    const Saved saved = kept == Kept::nothing ? Saved() : Saved(name, kept == Kept::input ? x : result);
    record(name, {x}, {result}, [operation, number, saved](BackwardCall& call) {
      const Tensor d = take_dense(call.d_outputs[0]);
      return Tensors{unary_gradient(operation, number, d, saved.defined() ? saved.get() : Tensor())};
    });
  }
  return result;
}

}  // namespace
}  // namespace internal

using internal::Unary;

Tensor add(const Tensor& x, double number) { return internal::map("add", Unary::add, x, number); }

Tensor sub(const Tensor& x, double number) { return internal::map("sub", Unary::add, x, -number); }

Tensor sub(double number, const Tensor& x) { return internal::map("sub", Unary::subtract_from, x, number); }

Tensor div(const Tensor& x, double number) { return internal::map("div", Unary::divide, x, number); }

Tensor div(double number, const Tensor& x) { return internal::map("div", Unary::divide_into, x, number); }

Tensor exp(const Tensor& x) { return internal::map("exp", Unary::exp, x); }

Tensor log(const Tensor& x) { return internal::map("log", Unary::log, x); }

Tensor sqrt(const Tensor& x) { return internal::map("sqrt", Unary::sqrt, x); }

Tensor pow(const Tensor& x, double exponent) { return internal::map("pow", Unary::power, x, exponent); }

Tensor neg(const Tensor& x) {
  internal::check_floating("neg", "x", x);
  return scale(x, -1.0);
}

}  // namespace headway::inline v0

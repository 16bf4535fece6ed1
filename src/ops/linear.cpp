// linear() and linear_dropout(): a product with a weight matrix, its bias and an activation in one pass; and the
// gradients of all three.
#include "ops/linear.h"

#include "backend/add_norm.h"
#include "base/check.h"
#include "core/random.h"
#include "headway/ops.h"
#include "ops/elementwise.h"
#include "ops/product.h"

namespace headway::inline v0 {
namespace internal {

Tensor as_rows(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (int dim = 0; dim < tensor.rank() - 1; ++dim) rows *= tensor.size(dim);
  return tensor.reshape({rows, tensor.size(-1)});
}

void check_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check(x.defined() && weight.defined(), "linear: x is ", x, " and weight is ", weight, ", expected two tensors");
  check(x.rank() >= 1, "linear: x is ", x, ", expected [..., in]");
  check(weight.rank() == 2, "linear: weight is ", weight, ", expected [out, in]");
  check(is_floating(x.dtype()) && x.dtype() == weight.dtype(), "linear: x is ", x, " and weight is ", weight,
        ", expected one floating dtype");
  check(x.size(-1) == weight.size(1), "linear: x is ", x, " with a last size of ", x.size(-1), ", and weight ",
        weight.shape(), " takes ", weight.size(1));
  check(!bias.defined() || (bias.rank() == 1 && bias.size(0) == weight.size(0) && bias.dtype() == x.dtype()),
        "linear: bias is ", bias, ", expected ", x.dtype(), Shape{weight.size(0)});
  check_same_device("linear", "x", x, "weight", weight);
  check_same_device("linear", "x", x, "bias", bias);
}

namespace {

// x W^T + bias into the result, with what a problem may ask for beside it.
void linear_into(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& result,
                 MatmulProblem problem) {
  const Tensor dense_bias = bias.defined() ? bias.contiguous() : bias;
  problem.rows = x.size(0);
  problem.columns = weight.size(0);
  problem.depth = weight.size(1);
  problem.a = matrix_of(x);
  problem.b = matrix_of(weight.transpose(0, 1));
  problem.result = matrix_of(result);
  if (bias.defined()) problem.bias = static_cast<const std::byte*>(dense_bias.raw_data());
  backend_of(x).matmul(problem);
}

}  // namespace

void linear_into(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& result) {
  linear_into(x, weight, bias, result, {});
}

Tensor linear_input_gradient(const Tensor& d, const Tensor& weight, const Shape& x_shape, BackwardCall& call,
                             std::size_t input) {
  if (backend_of(d).adds_products()) {
    if (const Tensor sum = call.take_sum(input); sum.defined()) {
      product_into(d, weight, as_rows(sum), true);
      return sum;
    }
  }
  return product(d, weight).reshape(x_shape);
}

namespace {

struct LinearForward {
  Tensor rows;               // (tokens, in): x
  Tensor result;             // (tokens, out)
  Tensor before_activation;  // (tokens, out), where its slope needs it
};

LinearForward linear_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                             bool recorded) {
  LinearForward made;
  made.rows = as_rows(x);
  const Shape shape = {made.rows.size(0), weight.size(0)};
  made.result = Tensor::empty(shape, x.dtype(), x.device());
  MatmulProblem problem = {.activation = activation};
  if (recorded && activation != Activation::none && !slope_from_output(activation)) {
    made.before_activation = Tensor::empty(shape, x.dtype(), x.device());
    problem.before_activation = matrix_of(made.before_activation);
  }
  linear_into(made.rows, weight, bias, made.result, problem);
  return made;
}

struct LinearBackward {
  Saved rows;    // (tokens, in)
  Saved weight;  // (out, in)
  Saved slope;   // (tokens, out): what the activation's slope is computed from; undefined without an activation
  Activation activation = Activation::none;
  double factor = 1;  // of what dropout left of the output
  Shape x_shape;

  // d_before = d_output * factor * slope, and the sums of its columns in d_bias where that is defined.
  Tensor before_activation(const Tensor& d, const Tensor& d_bias) const {
    std::byte* sums = d_bias.defined() ? static_cast<std::byte*>(d_bias.raw_data()) : nullptr;
    const std::int64_t tokens = d.size(0), outputs = d.size(1);
    const auto* from = static_cast<const std::byte*>(d.raw_data());
    if (activation == Activation::none) {
      if (sums) {
        backend_of(d).column_sums(
            {.dtype = d.dtype(), .rows = tokens, .columns = outputs, .x = from, .sums = sums, .sums_dtype = d.dtype()});
      }
      return d;
    }
    const Tensor d_before = is_uniquely_owned(d) ? d : Tensor::empty(d.shape(), d.dtype(), d.device());
    backend_of(d).activation_backward({.activation = activation,
                                       .dtype = d.dtype(),
                                       .factor = factor,
                                       .rows = tokens,
                                       .columns = outputs,
                                       .d_after = from,
                                       .saved = static_cast<const std::byte*>(slope.get().raw_data()),
                                       .d_before = static_cast<std::byte*>(d_before.raw_data()),
                                       .sums = sums,
                                       .sums_dtype = d.dtype()});
    return d_before;
  }

  Tensors operator()(BackwardCall& call) const {
    Tensor d = as_rows(call.d_outputs[0]);
    call.d_outputs[0] = Tensor();
    d = d.contiguous();
    const Tensor d_bias = call.wants(2) ? Tensor::empty({d.size(1)}, d.dtype(), d.device()) : Tensor();
    d = before_activation(d, d_bias);
    Tensor d_x, d_weight;
    // dW = dY^T X before dX: what is used last is freed last.
    if (call.wants(1)) d_weight = product(d.transpose(0, 1), rows.get());
    if (call.wants(0)) d_x = linear_input_gradient(d, weight.get(), x_shape, call, 0);
    return {d_x, d_weight, d_bias};
  }
};

// Activation, then dropout by the rule; a rule that drops anything is allowed only after a relu.
Tensor linear_with_rule(const char* name, const Tensor& x, const Tensor& weight, const Tensor& bias,
                        Activation activation, const ElementDropout& rule) {
  check_linear(x, weight, bias);
  const bool recorded = needs_gradient(x, weight, bias);
  const NoGradGuard guard;
  const LinearForward made = linear_forward(x, weight, bias, activation, recorded);
  if (rule.threshold != 0) {
    drop_dense(backend_of(x), {}, made.result, rule, made.result);
  }
  Shape shape = x.shape();
  shape[-1] = weight.size(0);
  Tensor result = made.result.view(shape);
  if (recorded) {
    LinearBackward backward = {.rows = Saved(name, made.rows),
                               .weight = Saved(name, weight),
                               .slope = {},
                               .activation = activation,
                               .factor = rule.scale,
                               .x_shape = x.shape()};
    if (activation != Activation::none) {
      backward.slope = Saved(name, slope_from_output(activation) ? made.result : made.before_activation);
    }
    record(name, {x, weight, bias}, {result}, std::move(backward));
  }
  return result;
}

}  // namespace

Tensor linear_dropout(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation,
                      double probability, std::uint64_t seed) {
  constexpr const char* kName = "linear_dropout";
  const auto rule = checked_dropout(kName, probability, seed);
  // After a relu, the sign of the output says where the slope is zero, also after dropout.
  if (activation != Activation::relu) return dropout(linear(x, weight, bias, activation), probability, seed);
  return linear_with_rule(kName, x, weight, bias, activation, rule);
}

}  // namespace internal

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  return internal::linear_with_rule("linear", x, weight, bias, activation, {});
}

}  // namespace headway::inline v0

// linear(): a product with a weight matrix, its bias and an activation in one pass; and the gradients of all three.
#include "core/autograd.h"
#include "core/check.h"
#include "headway/ops.h"
#include "ops/product.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// A tensor [..., features] as one matrix.
Tensor as_rows(const Tensor& tensor) {
  std::int64_t rows = 1;
  for (int dim = 0; dim < tensor.rank() - 1; ++dim) rows *= tensor.size(dim);
  return tensor.reshape({rows, tensor.size(-1)});
}

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias) {
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

struct Forward {
  Tensor rows;               // (tokens, in): x
  Tensor result;             // (tokens, out)
  Tensor before_activation;  // (tokens, out), where its slope needs it
};

Forward forward(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation, bool recorded) {
  Forward made;
  made.rows = as_rows(x);
  const std::int64_t tokens = made.rows.size(0), outputs = weight.size(0);
  made.result = Tensor::empty({tokens, outputs}, x.dtype(), x.device());
  const Tensor dense_bias = bias.defined() ? bias.contiguous() : bias;
  MatmulProblem problem = {.rows = tokens, .columns = outputs, .depth = weight.size(1)};
  problem.a = matrix_of(made.rows);
  problem.b = matrix_of(weight.transpose(0, 1));
  problem.result = matrix_of(made.result);
  if (bias.defined()) problem.bias = static_cast<const std::byte*>(dense_bias.raw_data());
  problem.activation = activation;
  if (recorded && activation != Activation::none && !slope_from_output(activation)) {
    made.before_activation = Tensor::empty({tokens, outputs}, x.dtype(), x.device());
    problem.before_activation = matrix_of(made.before_activation);
  }
  backend_of(x).matmul(problem);
  return made;
}

struct Backward {
  Saved rows;    // (tokens, in)
  Saved weight;  // (out, in)
  Saved slope;   // (tokens, out): what the activation's slope is computed from; undefined without an activation
  Activation activation = Activation::none;
  Shape x_shape;

  // d_before = d_output * slope, with the bias's gradient from the same pass.
  std::pair<Tensor, Tensor> before_activation(BackwardCall& call, bool wants_bias) const {
    Tensor d = as_rows(call.d_outputs[0]);
    call.d_outputs[0] = Tensor();
    d = d.contiguous();
    const std::int64_t tokens = d.size(0), outputs = d.size(1);
    Tensor d_bias = wants_bias ? Tensor::empty({outputs}, d.dtype(), d.device()) : Tensor();
    std::byte* sums = wants_bias ? static_cast<std::byte*>(d_bias.raw_data()) : nullptr;
    const auto* from = static_cast<const std::byte*>(d.raw_data());
    if (activation == Activation::none) {
      if (wants_bias) {
        backend_of(d).column_sums(
            {.dtype = d.dtype(), .rows = tokens, .columns = outputs, .x = from, .sums = sums, .sums_dtype = d.dtype()});
      }
      return {d, d_bias};
    }
    const Tensor d_before = is_sole_owner(d) ? d : Tensor::empty(d.shape(), d.dtype(), d.device());
    backend_of(d).activation_backward({.activation = activation,
                                       .dtype = d.dtype(),
                                       .rows = tokens,
                                       .columns = outputs,
                                       .d_after = from,
                                       .saved = static_cast<const std::byte*>(slope.get().raw_data()),
                                       .d_before = static_cast<std::byte*>(d_before.raw_data()),
                                       .sums = sums,
                                       .sums_dtype = d.dtype()});
    return {d_before, d_bias};
  }

  Tensors operator()(BackwardCall& call) const {
    const auto [d, d_bias] = before_activation(call, call.wants(2));
    Tensor d_x, d_weight;
    // dW = dY^T X before dX = dY W: what is used last is freed last.
    if (call.wants(1)) d_weight = product(d.transpose(0, 1), rows.get());
    if (call.wants(0)) d_x = product(d, weight.get()).reshape(x_shape);
    return {d_x, d_weight, d_bias};
  }
};

}  // namespace
}  // namespace internal

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, Activation activation) {
  internal::check_arguments(x, weight, bias);
  const bool recorded = internal::needs_gradient(x, weight, bias);
  const NoGradGuard guard;
  const internal::Forward made = internal::forward(x, weight, bias, activation, recorded);
  Shape shape = x.shape();
  shape[-1] = weight.size(0);
  Tensor result = made.result.view(shape);
  if (recorded) {
    internal::Backward backward = {.rows = internal::Saved("linear", made.rows),
                                   .weight = internal::Saved("linear", weight),
                                   .slope = {},
                                   .activation = activation,
                                   .x_shape = x.shape()};
    if (activation != Activation::none) {
      backward.slope =
          internal::Saved("linear", internal::slope_from_output(activation) ? made.result : made.before_activation);
    }
    internal::record("linear", {x, weight, bias}, {result}, std::move(backward));
  }
  return result;
}

}  // namespace headway::inline v0

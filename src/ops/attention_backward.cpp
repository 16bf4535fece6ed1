// attention_backward(): checks, allocates, calls the backend.
#include "backend/registry.h"
#include "base/check.h"
#include "headway/attention.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0 {
namespace {

constexpr const char* kBackwardName = "attention_backward";

// Checks a tensor that must have a given shape and dtype; undefined ones pass where `optional`.
void check_like(std::string_view name, const Tensor& tensor, const Shape& shape, DType dtype, bool optional) {
  if (!tensor.defined()) {
    internal::check(optional, kBackwardName, ": ", name, " is not given, expected ", dtype, shape);
    return;
  }
  internal::check(tensor.shape() == shape, kBackwardName, ": ", name, " has shape ", tensor.shape(), ", expected ",
                  shape);
  internal::check(tensor.dtype() == dtype, kBackwardName, ": ", name, " has dtype ", tensor.dtype(), ", expected ",
                  dtype);
}

// The bias gradient's sums: the bias's shape as four dimensions, 1 where it was broadcast.
Shape reduced_shape(const Tensor& bias) {
  Shape shape = Shape::filled(4, 1);
  for (int i = 1; i <= bias.rank(); ++i) shape[-i] = bias.size(-i);
  return shape;
}

// Throws unless the other arguments match the problem.
void check_backward(const AttentionBackward& arguments, const internal::AttentionProblem& problem) {
  const DType dtype = arguments.query.dtype();
  const DType sums = dtype == DType::float64 ? DType::float64 : DType::float32;
  const Shape output_shape = {problem.batch, problem.heads, problem.query_length, problem.value_dim};
  const Shape row_shape = {problem.batch, problem.heads, problem.query_length};
  check_like("forward.output", arguments.forward.output, output_shape, dtype, false);
  check_like("forward.logsumexp", arguments.forward.logsumexp, row_shape, sums, false);
  check_like("d_output", arguments.d_output, output_shape, dtype, true);
  check_like("d_logsumexp", arguments.d_logsumexp, row_shape, sums, true);
  internal::check(!arguments.d_weights.defined() || problem.weights != Weights::none, kBackwardName,
                  ": d_weights is given, but options.weights is none");
  if (problem.weights != Weights::none) {
    check_like("d_weights", arguments.d_weights, internal::weights_shape(problem), dtype, true);
  }
  internal::check_device(kBackwardName, "forward.output", arguments.forward.output, arguments.query);
  internal::check_device(kBackwardName, "forward.logsumexp", arguments.forward.logsumexp, arguments.query);
  internal::check_device(kBackwardName, "d_output", arguments.d_output, arguments.query);
  internal::check_device(kBackwardName, "d_logsumexp", arguments.d_logsumexp, arguments.query);
  internal::check_device(kBackwardName, "d_weights", arguments.d_weights, arguments.query);
}

}  // namespace

void internal::attention_backward_into(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                       const AttentionGradientForms& forms, AttentionGradients& gradients) {
  AttentionBackwardInputs dense = inputs;
  dense.output = with_contiguous_rows(inputs.output);
  dense.logsumexp = inputs.logsumexp.contiguous();
  if (inputs.d_output.defined()) dense.d_output = with_contiguous_rows(inputs.d_output);
  if (inputs.d_logsumexp.defined()) dense.d_logsumexp = inputs.d_logsumexp.contiguous();

  const DType dtype = problem.query.dtype();
  const Device device = problem.query.device();
  if (!gradients.query.defined()) gradients.query = empty_in_order_of(problem.query, problem.query.shape(), dtype);
  if (!gradients.key.defined()) gradients.key = empty_in_order_of(problem.key, problem.key.shape(), dtype);
  if (!gradients.value.defined()) gradients.value = empty_in_order_of(problem.value, problem.value.shape(), dtype);
  if (forms.bias.defined()) {
    gradients.bias = Tensor::zeros(reduced_shape(forms.bias), inputs.logsumexp.dtype(), device);
  }
  if (forms.sinks.defined()) gradients.sinks = Tensor::empty({problem.heads}, forms.sinks.dtype(), device);
  if (inputs.logsumexp.element_count() > 0) {
    backend_of(device).attention_backward(problem, dense, gradients);
  } else {  // no query
    for (Tensor* gradient : {&gradients.key, &gradients.value, &gradients.sinks}) {
      if (gradient->defined()) gradient->fill(0);
    }
  }
  if (gradients.sinks.defined()) gradients.sinks = gradients.sinks.to(forms.sinks.device());
  if (gradients.bias.defined()) gradients.bias = gradients.bias.to(forms.bias.dtype()).reshape(forms.bias.shape());
}

AttentionGradients attention_backward(const AttentionBackward& arguments) {
  const AttentionOptions& options = arguments.options;
  const internal::AttentionProblem problem =
      internal::make_attention_problem(kBackwardName, arguments.query, arguments.key, arguments.value, options);
  check_backward(arguments, problem);
  AttentionGradients gradients;
  internal::attention_backward_into(problem,
                                    {arguments.forward.output, arguments.forward.logsumexp, arguments.d_output,
                                     arguments.d_weights, arguments.d_logsumexp},
                                    {.bias = arguments.bias_gradient ? options.bias : Tensor(), .sinks = options.sinks},
                                    gradients);
  return gradients;
}

}  // namespace headway::inline v0

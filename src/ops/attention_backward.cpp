// attention_backward(): checks, allocates, calls the backend.
#include "base/check.h"
#include "headway/attention.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"
#include "ops/backend.h"

namespace headway::inline v0 {
namespace {

constexpr std::string_view kName = "attention_backward";

// Checks a tensor that must have a given shape and dtype; undefined ones pass where `optional`.
void check_like(std::string_view name, const Tensor& tensor, const Shape& shape, DType dtype, bool optional) {
  if (!tensor.defined()) {
    internal::check(optional, kName, ": ", name, " is not given, expected ", dtype, shape);
    return;
  }
  internal::check(tensor.shape() == shape, kName, ": ", name, " has shape ", tensor.shape(), ", expected ", shape);
  internal::check(tensor.dtype() == dtype, kName, ": ", name, " has dtype ", tensor.dtype(), ", expected ", dtype);
}

// The bias gradient's sums: the bias's shape as four dimensions, 1 where it was broadcast.
Shape reduced_shape(const Tensor& bias) {
  Shape shape = Shape::filled(4, 1);
  for (int i = 1; i <= bias.rank(); ++i) shape[-i] = bias.size(-i);
  return shape;
}

}  // namespace

void internal::attention_backward_into(const AttentionBackward& arguments, AttentionGradients& gradients) {
  const AttentionOptions& options = arguments.options;
  const internal::AttentionProblem problem =
      internal::make_attention_problem(kName, arguments.query, arguments.key, arguments.value, options);
  const DType dtype = arguments.query.dtype();
  const DType sums = dtype == DType::float64 ? DType::float64 : DType::float32;
  const Shape output_shape = {problem.batch, problem.heads, problem.query_length, problem.value_dim};
  const Shape row_shape = {problem.batch, problem.heads, problem.query_length};
  check_like("forward.output", arguments.forward.output, output_shape, dtype, false);
  check_like("forward.logsumexp", arguments.forward.logsumexp, row_shape, sums, false);
  check_like("d_output", arguments.d_output, output_shape, dtype, true);
  check_like("d_logsumexp", arguments.d_logsumexp, row_shape, sums, true);
  internal::check(!arguments.d_weights.defined() || problem.weights != Weights::none, kName,
                  ": d_weights is given, but options.weights is none");
  if (problem.weights != Weights::none) {
    check_like("d_weights", arguments.d_weights, internal::weights_shape(problem), dtype, true);
  }

  const Device device = arguments.query.device();
  internal::check_device(kName, "forward.output", arguments.forward.output, arguments.query);
  internal::check_device(kName, "forward.logsumexp", arguments.forward.logsumexp, arguments.query);
  internal::check_device(kName, "d_output", arguments.d_output, arguments.query);
  internal::check_device(kName, "d_logsumexp", arguments.d_logsumexp, arguments.query);
  internal::check_device(kName, "d_weights", arguments.d_weights, arguments.query);

  internal::AttentionBackwardInputs inputs;
  inputs.output = internal::with_contiguous_rows(arguments.forward.output);
  inputs.logsumexp = arguments.forward.logsumexp.contiguous();
  if (arguments.d_output.defined()) inputs.d_output = internal::with_contiguous_rows(arguments.d_output);
  if (arguments.d_logsumexp.defined()) inputs.d_logsumexp = arguments.d_logsumexp.contiguous();
  inputs.d_weights = arguments.d_weights;

  if (!gradients.query.defined()) gradients.query = empty_in_order_of(problem.query, problem.query.shape(), dtype);
  if (!gradients.key.defined()) gradients.key = empty_in_order_of(problem.key, problem.key.shape(), dtype);
  if (!gradients.value.defined()) gradients.value = empty_in_order_of(problem.value, problem.value.shape(), dtype);
  if (options.bias.defined() && arguments.bias_gradient) {
    gradients.bias = Tensor::zeros(reduced_shape(options.bias), sums, device);
  }
  if (options.sinks.defined()) {
    gradients.sinks = Tensor::empty({problem.heads}, options.sinks.dtype(), device);
  }
  internal::backend_of(arguments.query).attention_backward(problem, inputs, gradients);
  if (gradients.sinks.defined()) gradients.sinks = gradients.sinks.to(options.sinks.device());
  if (gradients.bias.defined()) {
    gradients.bias = gradients.bias.to(options.bias.dtype()).reshape(options.bias.shape());
  }
}

AttentionGradients attention_backward(const AttentionBackward& arguments) {
  AttentionGradients gradients;
  internal::attention_backward_into(arguments, gradients);
  return gradients;
}

}  // namespace headway::inline v0

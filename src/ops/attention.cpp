// attention(): checks, allocates, calls the backend, records the gradient.
#include "ops/attention.h"

#include "core/autograd.h"
#include "ops/attention_checks.h"
#include "ops/backend.h"

namespace headway::inline v0 {

namespace {

Tensor integers(const std::vector<std::int64_t>& values) { return Tensor::from(values, {std::ssize(values)}); }

}  // namespace

PerEntry::PerEntry(std::int64_t value) : values_(integers({value})) {}
PerEntry::PerEntry(std::initializer_list<std::int64_t> values) : values_(integers(values)) {}
PerEntry::PerEntry(const std::vector<std::int64_t>& values) : values_(integers(values)) {}

CumulativeLengths::CumulativeLengths(std::initializer_list<std::int64_t> values) : values_(integers(values)) {}
CumulativeLengths::CumulativeLengths(const std::vector<std::int64_t>& values) : values_(integers(values)) {}

namespace internal {

AttentionResult attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                  const AttentionOptions& options) {
  const NoGradGuard guard;  // what happens inside is no operation of its own
  const AttentionProblem problem = make_attention_problem("attention", query, key, value, options);
  const DType statistics = query.dtype() == DType::float64 ? DType::float64 : DType::float32;
  AttentionResult result;
  result.output =
      empty_in_order_of(query, {problem.batch, problem.heads, problem.query_length, problem.value_dim}, query.dtype());
  result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.query_length}, statistics, query.device());
  if (problem.weights != Weights::none) {
    result.weights = Tensor::empty(weights_shape(problem), query.dtype(), query.device());
  }
  backend_of(query).attention(problem, result);
  return result;
}

SavedAttention::SavedAttention(const AttentionOptions& options, const AttentionResult& result)
    : options_(options),
      true_keeps_(options.mask.true_keeps()),
      mask_("attention", options.mask.tensor()),
      bias_("attention", options.bias),
      sinks_("attention", options.sinks),
      output_("attention", result.output),
      logsumexp_("attention", result.logsumexp),
      weights_("attention", result.weights) {
  options_.mask = {};
  options_.bias = {};
  options_.sinks = {};
}

AttentionBackward SavedAttention::arguments(const BackwardCall& call) const {
  AttentionBackward arguments;
  arguments.options = options_;
  if (mask_.defined()) {
    arguments.options.mask = true_keeps_ ? Mask::keep(mask_.get()) : Mask::drop(mask_.get());
  }
  arguments.options.bias = bias_.get();
  arguments.options.sinks = sinks_.get();
  arguments.forward = {.output = output_.get(), .logsumexp = logsumexp_.get(), .weights = weights_.get()};
  arguments.d_output = call.d_output(0);
  arguments.d_logsumexp = call.d_output(1);
  arguments.d_weights = call.d_output(2);
  return arguments;
}

}  // namespace internal

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  AttentionResult result = internal::attention_forward(query, key, value, options);
  if (internal::needs_gradient(query, key, value, options.bias, options.sinks)) {
    internal::record("attention", {query, key, value, options.bias, options.sinks},
                     {result.output, result.logsumexp, result.weights},
                     [q = internal::Saved("attention", query), k = internal::Saved("attention", key),
                      v = internal::Saved("attention", value), saved = internal::SavedAttention(options, result)](
                         internal::BackwardCall& call) -> internal::Tensors {
                       AttentionBackward arguments = saved.arguments(call);
                       arguments.query = q.get();
                       arguments.key = k.get();
                       arguments.value = v.get();
                       arguments.bias_gradient = call.wants(3);
                       const AttentionGradients gradients = attention_backward(arguments);
                       return {gradients.query, gradients.key, gradients.value, gradients.bias, gradients.sinks};
                     });
  }
  return result;
}

}  // namespace headway::inline v0

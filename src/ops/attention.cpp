// attention(): checks, allocates, calls the backend, records the gradient.
#include "ops/attention.h"

#include <utility>

#include "backend/registry.h"
#include "core/autograd.h"
#include "ops/attention_checks.h"

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

AttentionResult attention_forward(const AttentionProblem& problem) {
  const Tensor& query = problem.query;
  const DType statistics = query.dtype() == DType::float64 ? DType::float64 : DType::float32;
  AttentionResult result;
  result.output =
      empty_in_order_of(query, {problem.batch, problem.heads, problem.query_length, problem.value_dim}, query.dtype());
  result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.query_length}, statistics, query.device());
  if (problem.weights != Weights::none) {
    result.weights = Tensor::empty(weights_shape(problem), query.dtype(), query.device());
  }
  if (result.logsumexp.element_count() > 0) {
    backend_of(query).attention(problem, result);
  } else if (problem.weights != Weights::none) {
    result.weights.fill(0);  // the mean over no heads
  }
  return result;
}

SavedAttention::SavedAttention(AttentionProblem problem, const AttentionOptions& options, const AttentionResult& result)
    : query_(kAttention, problem.query),
      key_(kAttention, problem.key),
      value_(kAttention, problem.value),
      mask_(kAttention, problem.mask),
      bias_(kAttention, options.bias),
      sinks_(kAttention, options.sinks),
      output_(kAttention, result.output),
      logsumexp_(kAttention, result.logsumexp),
      problem_(std::move(problem)) {
  problem_.query = query_.get();
  problem_.key = key_.get();
  problem_.value = value_.get();
  problem_.mask = mask_.get();
  if (problem_.bias.defined()) problem_.bias = problem_.bias.detach();
}

void SavedAttention::backward(const BackwardCall& call, AttentionGradients& gradients) const {
  for (const Saved* saved : {&query_, &key_, &value_, &mask_}) saved->get();  // throws where one was changed
  const Tensor& bias = bias_.get();
  AttentionBackwardInputs inputs;
  inputs.output = output_.get();
  inputs.logsumexp = logsumexp_.get();
  inputs.d_output = call.d_output(0);
  inputs.d_logsumexp = call.d_output(1);
  inputs.d_weights = call.d_output(2);
  attention_backward_into(problem_, inputs, {.bias = call.wants(3) ? bias : Tensor(), .sinks = sinks_.get()},
                          gradients);
}

}  // namespace internal

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  using internal::kAttention;
  const bool recorded = internal::needs_gradient(query, key, value, options.bias, options.sinks);
  const NoGradGuard guard;  // operations inside are not recorded
  internal::AttentionProblem problem = internal::make_attention_problem(kAttention, query, key, value, options);
  AttentionResult result = internal::attention_forward(problem);
  if (recorded) {
    internal::record(kAttention, {query, key, value, options.bias, options.sinks},
                     {result.output, result.logsumexp, result.weights},
                     [saved = internal::SavedAttention(std::move(problem), options, result)](
                         internal::BackwardCall& call) -> internal::Tensors {
                       AttentionGradients gradients;
                       saved.backward(call, gradients);
                       return {gradients.query, gradients.key, gradients.value, gradients.bias, gradients.sinks};
                     });
  }
  return result;
}

}  // namespace headway::inline v0

#include "dist/ulysses_attention.h"

#include <utility>

#include "dist/head_exchange.h"
#include "dist/ring_attention.h"
#include "headway/ops.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0::internal {
namespace {

HeadShares query_heads(const SequenceCall& call) { return {call.whole.heads, call.size()}; }
HeadShares key_heads(const SequenceCall& call) { return {call.whole.kv_heads, call.size()}; }
// What all heads share goes to every rank, and is summed on the way back.
HeadShares shared_head(const SequenceCall& call) { return {1, call.size()}; }

// A mask or bias [batch, heads, rows of this rank, keys] for this rank's heads and all rows.
Tensor plane_of_heads(const SequenceCall& call, const Tensor& plane, bool has_rows) {
  if (!plane.defined()) return {};
  Tensor part = plane;
  for (const int dim : {0, 1, 3}) {
    if (plane.stride(dim) == 0) part = part.slice(dim, 0, 1);
  }
  const bool by_head = part.size(1) > 1;
  const HeadShares heads = by_head ? query_heads(call) : shared_head(call);
  if (has_rows) {
    part = tokens_to_heads(part, heads, call.queries, call.ranks);
  } else {
    part = heads.take(part.slice(2, 0, 1), call.rank());
  }
  return part.expand({call.whole.batch, query_heads(call).count(), call.queries.length(), call.keys.length()});
}

// This rank's entries of values (rows, heads).
std::vector<double> values_of_heads(const SequenceCall& call, const std::vector<double>& values) {
  const HeadShares heads = query_heads(call);
  std::vector<double> part;
  for (std::size_t row = 0; row < values.size(); row += static_cast<std::size_t>(heads.heads)) {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(row) + heads.first(call.rank());
    part.insert(part.end(), first, first + heads.count());
  }
  return part;
}

AttentionProblem problem_of_heads(const SequenceCall& call) {
  const AttentionProblem& whole = call.whole;
  AttentionProblem problem = whole;
  problem.query = tokens_to_heads(whole.query, query_heads(call), call.queries, call.ranks);
  problem.key = tokens_to_heads(whole.key, key_heads(call), call.keys, call.ranks);
  problem.value = tokens_to_heads(whole.value, key_heads(call), call.keys, call.ranks);
  problem.mask = plane_of_heads(call, whole.mask, call.mask_has_rows);
  problem.bias = plane_of_heads(call, whole.bias, call.bias_has_rows);
  problem.heads = query_heads(call).count();
  problem.kv_heads = key_heads(call).count();
  problem.first_head = query_heads(call).first(call.rank());
  problem.query_length = call.queries.length();
  problem.alibi_slopes = values_of_heads(call, whole.alibi_slopes);
  problem.sinks = values_of_heads(call, whole.sinks);
  return problem;
}

// The weights [.., all rows, keys] of this rank's heads -> those of its rows and all heads.
Tensor weights_of_tokens(const SequenceCall& call, const Tensor& weights) {
  if (call.whole.weights == Weights::per_head) {
    return heads_to_tokens(weights, query_heads(call), call.queries, call.ranks, weights.dtype());
  }
  // The mean over all heads is that of the ranks' means.
  const Tensor sum =
      heads_to_tokens(weights.unsqueeze(1), shared_head(call), call.queries, call.ranks, sums_dtype(call.whole));
  return scale(sum, 1.0 / call.size()).to(weights.dtype()).squeeze(1);
}

Tensor d_weights_of_heads(const SequenceCall& call, const Tensor& d_weights) {
  const AttentionProblem& whole = call.whole;
  if (whole.weights == Weights::none) return {};
  const Tensor given =
      d_weights.defined() ? d_weights : Tensor::zeros(weights_shape(whole), whole.query.dtype(), whole.query.device());
  if (whole.weights == Weights::per_head) return tokens_to_heads(given, query_heads(call), call.queries, call.ranks);
  const Tensor all = tokens_to_heads(given.unsqueeze(1), shared_head(call), call.queries, call.ranks).squeeze(1);
  return scale(all, 1.0 / call.size());
}

// The gradient of a bias for this rank's heads and all rows -> its part of the whole gradient.
Tensor d_bias_of_tokens(const SequenceCall& call, const Tensor& d_bias, const Tensor& bias) {
  Shape shape = Shape::filled(4, 1);
  for (int i = 1; i <= bias.rank(); ++i) shape[-i] = bias.size(-i);
  const HeadShares heads = shape[1] > 1 ? query_heads(call) : shared_head(call);
  if (call.bias_has_rows) {
    const Tensor rows = heads_to_tokens(d_bias, heads, call.queries, call.ranks, d_bias.dtype());
    return shape[2] == rows.size(2) ? rows : sum(rows, {2}, true);  // a rank without queries may have a row
  }
  Tensor part = Tensor::zeros(shape, d_bias.dtype(), d_bias.device());
  heads.take(part, call.rank()).copy_from(d_bias);
  return part;
}

}  // namespace

AttentionResult ulysses_forward(const SequenceCall& call, UlyssesHeads* heads) {
  AttentionProblem problem = problem_of_heads(call);
  AttentionResult part = attention_forward(problem);
  AttentionResult result;
  result.output = empty_in_order_of(call.whole.query,
                                    {call.whole.batch, call.whole.heads, call.whole.query_length, call.whole.value_dim},
                                    call.whole.query.dtype());
  result.output.copy_from(
      heads_to_tokens(part.output, query_heads(call), call.queries, call.ranks, part.output.dtype()));
  result.logsumexp =
      heads_to_tokens(part.logsumexp.unsqueeze(3), query_heads(call), call.queries, call.ranks, part.logsumexp.dtype())
          .squeeze(3);
  if (part.weights.defined()) result.weights = weights_of_tokens(call, part.weights);
  if (heads != nullptr) *heads = {std::move(problem), part.output, part.logsumexp};
  return result;
}

AttentionGradients ulysses_backward(const SequenceCall& call, const UlyssesHeads& heads,
                                    const AttentionBackwardInputs& inputs, const Tensor& bias, const Tensor& sinks) {
  const AttentionProblem& whole = call.whole;
  const Device device = whole.query.device();
  const auto or_zeros = [&](const Tensor& tensor, const Shape& shape, DType dtype) {
    return tensor.defined() ? tensor : Tensor::zeros(shape, dtype, device);
  };
  const Tensor d_output =
      or_zeros(inputs.d_output, {whole.batch, whole.heads, whole.query_length, whole.value_dim}, whole.query.dtype());
  const Tensor d_logsumexp =
      or_zeros(inputs.d_logsumexp, {whole.batch, whole.heads, whole.query_length}, sums_dtype(whole));
  AttentionBackwardInputs part;
  part.output = heads.output;
  part.logsumexp = heads.logsumexp;
  part.d_output = tokens_to_heads(d_output, query_heads(call), call.queries, call.ranks);
  part.d_logsumexp = tokens_to_heads(d_logsumexp.unsqueeze(3), query_heads(call), call.queries, call.ranks).squeeze(3);
  part.d_weights = d_weights_of_heads(call, inputs.d_weights);

  AttentionGradientForms forms;
  if (bias.defined()) {
    // One dimension for each of the problem's, 1 where the bias was broadcast.
    const Tensor& plane = heads.problem.bias;
    Shape shape = Shape::filled(4, 1);
    for (int i = 1; i <= bias.rank(); ++i) shape[-i] = bias.size(-i) > 1 ? plane.size(-i) : 1;
    if (call.bias_has_rows) shape[2] = plane.size(2);
    forms.bias = Tensor::empty(shape, sums_dtype(whole), device);
  }
  if (sinks.defined()) forms.sinks = Tensor::empty({heads.problem.heads}, sums_dtype(whole), device);
  AttentionGradients gradients;
  attention_backward_into(heads.problem, part, forms, gradients);

  AttentionGradients result;
  const DType dtype = whole.query.dtype();
  result.query = heads_to_tokens(gradients.query, query_heads(call), call.queries, call.ranks, dtype);
  const DType key_sums = whole.kv_heads < call.size() ? sums_dtype(whole) : dtype;
  result.key = heads_to_tokens(gradients.key, key_heads(call), call.keys, call.ranks, key_sums).to(dtype);
  result.value = heads_to_tokens(gradients.value, key_heads(call), call.keys, call.ranks, key_sums).to(dtype);
  if (bias.defined()) {
    result.bias = d_bias_of_tokens(call, gradients.bias, bias).to(bias.dtype()).reshape(bias.shape());
  }
  if (sinks.defined()) {
    result.sinks = Tensor::zeros(sinks.shape(), sinks.dtype(), sinks.device());
    const std::int64_t first = query_heads(call).first(call.rank());
    result.sinks.slice(0, first, first + query_heads(call).count()).copy_from(gradients.sinks);
  }
  return result;
}

}  // namespace headway::inline v0::internal

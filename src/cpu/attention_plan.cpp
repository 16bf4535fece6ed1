#include "cpu/attention_plan.h"

#include <algorithm>

namespace headway::inline v0::internal::cpu {
namespace {

Plane plane_of(const Tensor& tensor, const Sequence& sequence, std::int64_t head) {
  if (!tensor.defined()) return {};
  const std::int64_t offset = sequence.batch * tensor.stride(0) + head * tensor.stride(1) +
                              sequence.query_begin * tensor.stride(2) + sequence.key_begin * tensor.stride(3);
  const auto bytes = static_cast<std::int64_t>(item_size(tensor.dtype()));
  return {.data = static_cast<const std::byte*>(tensor.raw_data()) + offset * bytes,
          .row_stride = tensor.stride(2),
          .column_stride = tensor.stride(3),
          .dtype = tensor.dtype()};
}

}  // namespace

Rows rows_of(const Tensor& tensor, std::int64_t batch, std::int64_t head, std::int64_t first_row) {
  const std::int64_t offset = batch * tensor.stride(0) + head * tensor.stride(1) + first_row * tensor.stride(2);
  const auto bytes = static_cast<std::int64_t>(item_size(tensor.dtype()));
  return {.data = static_cast<std::byte*>(tensor.raw_data()) + offset * bytes,
          .stride = tensor.stride(2),
          .dtype = tensor.dtype()};
}

std::vector<ScoreRule> make_rules(const AttentionProblem& problem) {
  std::vector<ScoreRule> rules;
  rules.reserve(problem.sequences.size() * static_cast<std::size_t>(problem.heads));
  for (std::size_t s = 0; s < problem.sequences.size(); ++s) {
    const Sequence& sequence = problem.sequences[s];
    for (std::int64_t h = 0; h < problem.heads; ++h) {
      ScoreRule rule;
      rule.key_count = sequence.key_count;
      rule.query_offset = sequence.query_offset;
      rule.left = problem.left.value_or(kUnlimited);
      rule.right = problem.right.value_or(kUnlimited);
      rule.softcap = problem.softcap;
      if (!problem.alibi_slopes.empty()) {
        rule.alibi_slope =
            problem.alibi_slopes[s * static_cast<std::size_t>(problem.heads) + static_cast<std::size_t>(h)];
      }
      rule.mask = plane_of(problem.mask, sequence, h);
      rule.mask_true_keeps = problem.mask_true_keeps;
      rule.bias = plane_of(problem.bias, sequence, h);
      rule.dropout = problem.dropout;
      rule.dropout_batch = static_cast<std::int64_t>(s);
      rule.dropout_head = problem.first_head + h;
      rule.dropout_row = sequence.first_row;
      rule.dropout_column = sequence.first_column;
      rules.push_back(rule);
    }
  }
  return rules;
}

WeightsKind weights_kind(WeightsOf of) {
  switch (of) {
    case WeightsOf::scores:
      return WeightsKind::scores;
    case WeightsOf::softcapped:
      return WeightsKind::softcapped;
    case WeightsOf::masked:
      return WeightsKind::masked;
    default:
      return WeightsKind::softmax;
  }
}

bool has_large_logsumexp(const Tensor& logsumexp) {
  const auto any_large = [&](const auto* values) {
    return std::any_of(values, values + logsumexp.element_count(),
                       [](auto value) { return is_large_logsumexp(value); });
  };
  return logsumexp.dtype() == DType::float64 ? any_large(logsumexp.data<double>()) : any_large(logsumexp.data<float>());
}

std::int64_t visible_scores(const ScoreRule& rule, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return 0;
  // Limits move by one key per query: the ends of the range describe the middle well enough for scheduling.
  const auto seen = [&](std::int64_t query) {
    return std::max<std::int64_t>(0, rule.end_key(query) - rule.first_key(query));
  };
  return (seen(begin) + 2 * seen((begin + end) / 2) + seen(end - 1)) * (end - begin) / 4;
}

}  // namespace headway::inline v0::internal::cpu

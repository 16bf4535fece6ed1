// attention(): checks, allocates, calls the backend.
#include "headway/attention.h"

#include "core/check.h"
#include "cpu/attention.h"
#include "ops/attention_checks.h"

namespace headway::inline v0 {

PerEntry::PerEntry(std::int64_t value) : values_(Tensor::from<std::int64_t>({value}, {1})) {}
PerEntry::PerEntry(std::initializer_list<std::int64_t> values) : PerEntry(std::vector<std::int64_t>(values)) {}
PerEntry::PerEntry(const std::vector<std::int64_t>& values)
    : values_(Tensor::from<std::int64_t>(values, {static_cast<std::int64_t>(values.size())})) {}

AttentionResult attention(const Tensor& query, const Tensor& key, const Tensor& value,
                          const AttentionOptions& options) {
  const internal::AttentionProblem problem = internal::make_attention_problem("attention", query, key, value, options);
  const DType statistics = query.dtype() == DType::float64 ? DType::float64 : DType::float32;
  AttentionResult result;
  result.output = Tensor::empty({problem.batch, problem.heads, problem.query_length, problem.value_dim}, query.dtype());
  result.logsumexp = Tensor::empty({problem.batch, problem.heads, problem.query_length}, statistics);
  if (problem.weights != Weights::none) {
    result.weights = Tensor::empty(internal::weights_shape(problem), query.dtype());
  }
  internal::cpu::attention(problem, result);
  return result;
}

}  // namespace headway::inline v0

#include "generate/prompt_attention.h"

#include <algorithm>

namespace headway::inline v0::internal {
namespace {

// T5's bias for queries [past, end) over keys [0, end): [1, heads, queries, keys], where the keys after a query are
// masked by causality.
Tensor prompt_bias(const Tensor& distance_bias, std::int64_t past, std::int64_t end, DType dtype) {
  const std::int64_t heads = distance_bias.size(0), distances = distance_bias.size(1), queries = end - past;
  const Tensor table = distance_bias.to(Device::cpu());
  const Tensor bias = Tensor::zeros({1, heads, queries, end});
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t q = 0; q < queries; ++q) {
      float* row = bias.data<float>() + (head * queries + q) * end;
      for (std::int64_t k = 0; k <= past + q; ++k) {
        row[k] = table.data<float>()[head * distances + std::min(past + q - k, distances - 1)];
      }
    }
  }
  return bias.to(dtype).to(distance_bias.device());
}

AttentionOptions options_of(const StepScores& scores) {
  AttentionOptions options = {.causal = Causal::bottom_right, .scale = scores.scale};
  if (scores.window >= 0) options.window.left = scores.window;
  if (scores.softcap > 0) options.softcap = scores.softcap;
  options.alibi_slopes = scores.alibi_slopes;
  options.sinks = scores.sinks;
  return options;
}

PromptAttention attend_rows(const StepScores& scores, const Tensor& projected, const Tensor& keys_values,
                            const AttentionOptions& options) {
  const std::int64_t queries = projected.size(0), keys = keys_values.size(0);
  const Tensor query =
      projected.view({queries, scores.heads + 2 * scores.kv_heads, scores.head_dim}).slice(1, 0, scores.heads);
  const Tensor both = keys_values.view({keys, 2 * scores.kv_heads, scores.head_dim});
  const auto heads_first = [](const Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  const AttentionResult result = attention(heads_first(query), heads_first(both.slice(1, 0, scores.kv_heads)),
                                           heads_first(both.slice(1, scores.kv_heads, 2 * scores.kv_heads)), options);
  return {result.output.select(0, 0).transpose(0, 1).reshape({queries, scores.heads * scores.head_dim}),
          result.weights};
}

}  // namespace

PromptAttention attend_prompt(const StepScores& scores, const Tensor& projected, const Tensor& keys_values,
                              Weights weights) {
  AttentionOptions options = options_of(scores);
  options.weights = weights;
  if (scores.distance_bias.defined()) {
    const std::int64_t keys = keys_values.size(0);
    options.bias = prompt_bias(scores.distance_bias, keys - projected.size(0), keys, projected.dtype());
  }
  return attend_rows(scores, projected, keys_values, options);
}

Tensor attend_prompts(const StepScores& scores, const Tensor& projected, const std::vector<std::int64_t>& queries,
                      const std::vector<Tensor>& keys_values) {
  std::vector<std::int64_t> query_ends = {0}, key_ends = {0};
  for (std::size_t i = 0; i < queries.size(); ++i) {
    query_ends.push_back(query_ends.back() + queries[i]);
    key_ends.push_back(key_ends.back() + keys_values[i].size(0));
  }
  AttentionOptions options = options_of(scores);
  options.cu_query_lengths = query_ends;
  options.cu_key_lengths = key_ends;
  return attend_rows(scores, projected, concat(keys_values), options).output;
}

PromptAttention attend_memory(const StepScores& scores, const Tensor& query, const Tensor& keys_values,
                              Weights weights) {
  const std::int64_t keys = keys_values.size(0);
  const Tensor both = keys_values.view({keys, 2 * scores.kv_heads, scores.head_dim});
  const auto heads_first = [](const Tensor& x) { return x.transpose(0, 1).unsqueeze(0); };
  AttentionOptions options = {.scale = scores.scale, .weights = weights};
  if (scores.softcap > 0) options.softcap = scores.softcap;
  const AttentionResult result = attention(heads_first(query.reshape({query.size(0), scores.heads, scores.head_dim})),
                                           heads_first(both.slice(1, 0, scores.kv_heads)),
                                           heads_first(both.slice(1, scores.kv_heads, 2 * scores.kv_heads)), options);
  return {result.output.select(0, 0).transpose(0, 1).reshape(query.shape()), result.weights};
}

}  // namespace headway::inline v0::internal

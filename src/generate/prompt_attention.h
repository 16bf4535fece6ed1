// Attention over the tokens of one sequence by attention() itself: for prompts, and where weights are asked for.
#pragma once

#include <cstdint>
#include <vector>

#include "generate/decoder_weights.h"
#include "headway/attention.h"

namespace headway::inline v0::internal {

struct PromptAttention {
  Tensor output;   // [queries, heads * head_dim]
  Tensor weights;  // [1, heads, queries, keys], or without heads for the mean; on request
};

// The last tokens of a sequence over all of it: projected [queries, (heads + 2 * kv_heads) * head_dim], whose queries
// are normed and rotated, keys_values [tokens, 2 * kv_heads * head_dim].
PromptAttention attend_prompt(const StepScores& scores, const Tensor& projected, const Tensor& keys_values,
                              Weights weights = Weights::none);

// The same for several sequences end to end: queries[i] rows of `projected` belong to the tokens of keys_values[i].
// Without distance_bias.
Tensor attend_prompts(const StepScores& scores, const Tensor& projected, const std::vector<std::int64_t>& queries,
                      const std::vector<Tensor>& keys_values);

// query [queries, heads * head_dim] over a source: keys_values [tokens, 2 * kv_heads * head_dim].
PromptAttention attend_memory(const StepScores& scores, const Tensor& query, const Tensor& keys_values,
                              Weights weights);

}  // namespace headway::inline v0::internal

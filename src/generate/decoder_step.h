// The parts of a decoder that steps of one token per row and whole prompts have in common.
#pragma once

#include "base/function_ref.h"
#include "generate/decoder_weights.h"

namespace headway::inline v0::internal {

// norm(x) W^T + b of one matrix or of several, activated and gated: x [rows, in] -> [rows, out].
Tensor project(const Tensor& x, const WeightParts& weights, const LinearStepOptions& options);

// Queries, keys and values of the sublayer's input, or queries alone: x [rows, width] -> [rows, features].
Tensor project_attention(const AttentionWeights& weights, const Tensor& x);
// The sublayer's output from what its heads attended to: attended [rows, heads * head_dim] -> [rows, width].
Tensor finish_attention(const AttentionWeights& weights, const Tensor& x, const Tensor& attended);
// Keys and values of sources: memory [sources, length, width] -> [sources, length, 2 * kv_heads * head_dim].
Tensor project_memory(const AttentionWeights& weights, const Tensor& memory);
// x [rows, width] -> [rows, width]
Tensor apply_feed_forward(const FeedForwardWeights& weights, const Tensor& x);

// The embeddings of tokens [rows] int64 at positions [rows] int64 -> [rows, width].
Tensor embed_tokens(const DecoderWeights& weights, const Tensor& tokens, const Tensor& positions);
// Logits of the last hidden states: x [rows, width] -> [rows, vocab_size].
Tensor logits_of(const DecoderWeights& weights, const Tensor& x);

// attend(layer, projected) -> [rows, heads * head_dim]
using Attend = FunctionRef<Tensor(std::size_t layer, const Tensor& projected)>;
// x [rows, width] through layers [0, count) -> [rows, width].
Tensor run_layers(const DecoderWeights& weights, std::size_t count, Tensor x, Attend attend_self, Attend attend_source);

}  // namespace headway::inline v0::internal

// The multi-head attention layer of "Attention Is All You Need".
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "headway/attention.h"
#include "headway/export.h"
#include "headway/layers.h"
#include "headway/module.h"

namespace headway {
inline namespace v0 {

struct MultiHeadAttentionOptions {
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 1;
  std::optional<std::int64_t> kdim = {};          // features of the keys; default: embed_dim
  std::optional<std::int64_t> vdim = {};          // features of the values; default: embed_dim
  std::optional<std::int64_t> num_kv_heads = {};  // fewer than num_heads: grouped-query attention
  std::optional<std::int64_t> head_dim = {};      // default: embed_dim / num_heads
  bool bias = true;
  double dropout = 0.0;                      // on the attention weights
  double projection_dropout = 0.0;           // on projected queries, keys and values
  double output_dropout = 0.0;               // on the output
  bool add_bias_kv = false;                  // one more learned key and value after the others
  bool add_zero_attn = false;                // one more key and value of zeros after the others
  bool batch_first = true;                   // [batch, length, features], else [length, batch, features]
  std::optional<RotaryOptions> rotary = {};  // rotate queries and keys by their positions
  DType dtype = DType::float32;
};

// Keys and values of the tokens seen so far, for decoding token by token.
class HEADWAY_API KeyValueCache {
 public:
  // The number of tokens in the cache.
  std::int64_t length() const { return length_; }
  // Removes all tokens; the memory is kept and used again.
  void clear() { length_ = 0; }
  // Keeps the given batch entries in the given order (an entry may be repeated), as beam search needs.
  void reorder(const std::vector<std::int64_t>& entries);
  // Appends keys and values [batch, kv_heads, new_length, head_dim] and returns views of all of them. The capacity
  // grows by doubling, so that appending a token has a constant amortised cost.
  std::pair<Tensor, Tensor> append(const Tensor& keys, const Tensor& values);
  // Views of the keys and values in the cache: [batch, kv_heads, length, head_dim]; undefined while
  // it is empty.
  Tensor keys() const;
  Tensor values() const;

 private:
  Tensor keys_;    // (batch, kv_heads, capacity, head_dim)
  Tensor values_;  // (batch, kv_heads, capacity, head_dim)
  std::int64_t length_ = 0;
};

struct MultiHeadAttentionInput {
  Tensor query = {};  // [batch, query_length, embed_dim], or [query_length, embed_dim]
  Tensor key = {};    // [batch, key_length, kdim]; default: the query (self-attention)
  Tensor value = {};  // [batch, key_length, vdim]; default: the key

  Causal causal = Causal::none;
  PerEntry key_lengths = {};   // non-padding keys per entry; Causal::bottom_right does not depend on them
  Mask key_padding_mask = {};  // [batch, key_length] (or [key_length] without a batch); excludes key_lengths
  Mask mask = {};              // [query_length, key_length], or [batch, heads, query_length, key_length]
  Tensor bias = {};            // added to the scores; shaped like the mask. A size of 1 broadcasts in both

  Weights weights = Weights::none;

  // Self-attention: appends this call's keys and values to the cache and attends to all keys in it; the queries'
  // positions follow the earlier keys. Masks and causality refer to all keys. A cache passes no gradients on.
  KeyValueCache* cache = nullptr;
  // Cross-attention: keys and values are projected and stored when the cache is empty, and read from it later.
  bool cache_is_static = false;
};

struct MultiHeadAttentionResult {
  Tensor output;  // the query's shape
  // [batch, heads, query_length, key_length], or [batch, query_length, key_length] for the mean: the probabilities
  // before dropout. Only on request.
  Tensor weights;
};

// softmax(Q K^T / sqrt(head_dim) + mask) V for every head, with projections before and after. Parameters as in torch:
// in_proj_weight and in_proj_bias where queries, keys and values have one width, else q_proj_weight, k_proj_weight,
// v_proj_weight and in_proj_bias; bias_k, bias_v; out_proj.weight, out_proj.bias.
class HEADWAY_API MultiHeadAttention : public Module {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionOptions& options);
  MultiHeadAttentionResult forward(const MultiHeadAttentionInput& input) const;
  const MultiHeadAttentionOptions& options() const { return options_; }

 private:
  struct Call;

  MultiHeadAttentionOptions options_;
  std::int64_t head_dim_ = 0;
  std::int64_t kv_heads_ = 0;
  Parameter in_proj_weight_;  // (query_features + 2 * kv_features, embed_dim)
  Parameter q_proj_weight_;   // (query_features, embed_dim), where in_proj_weight is undefined
  Parameter k_proj_weight_;   // (kv_features, kdim)
  Parameter v_proj_weight_;   // (kv_features, vdim)
  Parameter in_proj_bias_;    // (query_features + 2 * kv_features)
  Parameter bias_k_;          // (1, 1, kv_features)
  Parameter bias_v_;          // (1, 1, kv_features)
  Linear out_proj_;
};

}  // namespace v0
}  // namespace headway

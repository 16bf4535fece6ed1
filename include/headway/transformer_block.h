// One block for every family of Transformers: what BERT, GPT-2, Llama, T5, BART and others differ in is an option.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headway/attention.h"
#include "headway/export.h"
#include "headway/layers.h"
#include "headway/multi_head_attention.h"

namespace headway {
inline namespace v0 {

namespace internal {
struct ChainedBlock;
}

enum class NormKind {
  layer,
  rms,
  rms_plus_one,  // RMS norm times (1 + weight), as in Gemma
};

// Where a sublayer f has its norms.
enum class NormPlace {
  before,  // x + f(norm(x))
  after,   // norm(x + f(x))
  both,    // x + norm(f(norm(x)))
};

// How the frequencies of rotary positions are stretched for texts longer than those of pre-training. The kinds and
// fields are those of "rope_scaling" in a config.json.
struct RotaryScaling {
  enum class Kind { none, linear, dynamic, yarn, llama3, longrope };
  Kind kind = Kind::none;
  double factor = 1.0;
  std::int64_t original_length = 0;             // positions of pre-training
  double low_frequency_factor = 1.0;            // llama3
  double high_frequency_factor = 4.0;           // llama3
  double beta_fast = 32.0;                      // yarn
  double beta_slow = 1.0;                       // yarn
  bool truncate = true;                         // yarn: whole numbers as limits of the ramp
  std::optional<double> attention_factor = {};  // of sines and cosines; default: the kind's own
  std::optional<double> mscale = {};            // yarn
  std::optional<double> mscale_all_dim = {};    // yarn
  std::vector<double> short_factors = {};       // longrope, one per frequency: up to original_length
  std::vector<double> long_factors = {};        // longrope: beyond
};

struct RotaryPositions {
  double base = 10000.0;
  std::int64_t dims = 0;        // the first `dims` of head_dim are rotated; 0: all
  bool interleaved = false;     // pairs are neighbours, else halves
  std::int64_t max_length = 0;  // max_position_embeddings, which some scalings need
  RotaryScaling scaling = {};
};
// Radians per position of each pair [dims / 2], and the factor of sines and cosines, for a text of `length` tokens
// (only `dynamic` and `longrope` depend on it).
struct RotaryFrequencies {
  std::vector<double> frequencies;
  double factor = 1.0;
};
HEADWAY_API RotaryFrequencies rotary_frequencies(const RotaryPositions& rotary, std::int64_t head_dim,
                                                 std::int64_t length);

struct BlockOptions {
  std::int64_t width = 0;
  std::int64_t heads = 1;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 0;  // 0: width / heads
  std::int64_t hidden = 0;    // of the feed-forward network; 0: 4 * width

  NormKind norm = NormKind::layer;
  NormPlace norm_place = NormPlace::before;
  double norm_epsilon = 1e-5;
  bool norm_bias = true;           // of LayerNorm
  bool has_attention_norm = true;  // false: none before the self-attention, as in ModernBERT's first block

  Activation activation = Activation::gelu;
  bool gated = false;  // down(activation(gate(x)) * up(x)), else down(activation(up(x)))
  bool query_bias = true;
  bool key_bias = true;
  bool value_bias = true;
  bool output_bias = true;
  bool feed_forward_bias = true;
  bool fused_qkv = false;      // one parameter `qkv` for queries, keys and values, in this order
  bool fused_gate_up = false;  // one parameter `gate_up` for both, in this order

  bool query_key_norm = false;       // RMS norm (of kind `norm`) of each head's queries and keys, before rotation
  std::optional<double> scale = {};  // of the scores; default 1 / sqrt(head_dim)
  std::optional<double> softcap = {};
  std::optional<RotaryPositions> rotary = {};
  std::vector<double> alibi_slopes = {};  // [heads]
  Window window = {};
  bool sinks = false;  // one more learned score per head
  bool causal = false;
  bool cross_attention = false;  // to a memory, between self-attention and feed-forward

  double dropout = 0.0;             // on the output of each sublayer
  double attention_dropout = 0.0;   // on attention weights
  double activation_dropout = 0.0;  // inside the feed-forward network
  DType dtype = DType::float32;
};

struct BlockInput {
  Tensor x = {};           // [batch, length, width]
  PerEntry lengths = {};   // non-padding tokens of each entry, which come first
  Mask padding_mask = {};  // [batch, length] (with a cache: of all keys): padding at any position; excludes lengths
  Mask mask = {};          // [length, keys], or [batch, heads, length, keys] where a size of 1 broadcasts
  Tensor bias = {};        // added to the scores of the self-attention: [1 or batch, heads, length, keys]
  Tensor positions = {};   // of rotary: int64 [length] or [batch, length]; default: from the cache's length on
  CumulativeLengths packed = {};  // x is [1, total, width] and holds sequences end to end; excludes lengths and masks

  Tensor memory = {};  // [batch, source_length, width] of the encoder, for cross-attention
  PerEntry memory_lengths = {};
  Mask memory_padding_mask = {};

  KeyValueCache* cache = nullptr;         // of the self-attention: x holds the tokens after those in the cache
  KeyValueCache* memory_cache = nullptr;  // of the cross-attention: filled once, read later
  Weights weights = Weights::none;
};

struct BlockResult {
  Tensor output;   // x's shape
  Tensor weights;  // [batch, heads, length, keys] of the self-attention, or without heads for the mean; on request
  Tensor cross_weights;  // [batch, heads, length, source_length], likewise
};

// Self-attention, cross-attention where there is one, a feed-forward network. Parameters, where the options have them:
//   attention.{query,key,value,output}.{weight,bias}, or attention.qkv.{weight,bias} where fused
//   attention.{query_norm,key_norm}.weight, attention.sinks
//   cross.{query,key,value,output}.{weight,bias}
//   feed_forward.{up,gate,down}.{weight,bias}, or feed_forward.gate_up.* where fused
//   attention_norm, cross_norm, feed_forward_norm .{weight,bias}: the norm before a sublayer, or after it for
//   NormPlace::after; attention_output_norm, feed_forward_output_norm: the second ones of NormPlace::both
class HEADWAY_API TransformerBlock : public Module {
 public:
  explicit TransformerBlock(const BlockOptions& options);
  BlockResult forward(const BlockInput& input) const;
  const BlockOptions& options() const { return *options_; }

 private:
  friend struct internal::ChainedBlock;  // blocks one after the other
  struct Parts;
  std::shared_ptr<const BlockOptions> options_;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway

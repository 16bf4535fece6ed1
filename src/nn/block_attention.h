// The attention of a block: to its own tokens, or to a memory.
#pragma once

#include <array>
#include <optional>

#include "headway/sequence_parallel.h"
#include "headway/transformer_block.h"
#include "nn/block_norm.h"
#include "ops/attention_heads.h"

namespace headway::inline v0::internal {

struct BlockAttentionResult {
  Tensor output;   // [batch, length, width], without residual connection and dropout
  Tensor weights;  // only on request
};

// Parameters: {query,key,value,output}.{weight,bias} or {qkv,output}.{weight,bias}, {query_norm,key_norm}.weight,
// sinks.
class BlockAttention : public Module {
 public:
  // With `cross`, the keys are those of a memory; rotary, ALiBi, window, softcap, sinks and norms of heads do not
  // apply.
  BlockAttention(const BlockOptions& options, bool cross);

  // input.x: the normed tokens.
  BlockAttentionResult attend_self(const BlockInput& input) const;
  BlockAttentionResult attend_memory(const BlockInput& input) const;

 private:
  // Queries, keys and values in the features of their projections.
  std::array<HeadsIn, 3> project(const Tensor& x) const;
  // The same as tensors [batch, heads, length, head_dim], normed and rotated.
  std::array<Tensor, 3> separate(const Tensor& x, const BlockInput& input) const;
  RotaryOptions rotary_options(const BlockInput& input) const;
  BlockAttentionResult attend_self_over(const SequenceParallelGuard& guard, const BlockInput& input) const;
  AttentionOptions self_options(const BlockInput& input, std::int64_t key_length, std::int64_t cached) const;
  // What self-attention and attention to a memory share.
  void set_common(const BlockInput& input, AttentionOptions& options) const;
  Tensor heads_of(const Tensor& projected, std::int64_t heads) const;
  BlockAttentionResult finish(const AttentionResult& attended) const;

  BlockOptions options_;
  std::optional<RotaryFrequencies> frequencies_;  // where they depend on no length
  Tensor alibi_slopes_;                           // [heads]; undefined where there are none
  std::optional<Linear> qkv_;
  std::optional<Linear> query_;
  std::optional<Linear> key_;
  std::optional<Linear> value_;
  Linear output_;
  BlockNorm query_norm_;
  BlockNorm key_norm_;
  Parameter sinks_;
};

// Options with the defaults filled in; throws where they contradict each other.
BlockOptions checked_block_options(BlockOptions options);

// 0, 1, ... inside each sequence of a packed batch, on the CPU: int64 [total].
HEADWAY_INTERNAL_API Tensor packed_positions(const CumulativeLengths& packed);

}  // namespace headway::inline v0::internal

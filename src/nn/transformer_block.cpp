// TransformerBlock: self-attention, cross-attention, feed-forward network, each with its norms and residual connection.
#include "headway/transformer_block.h"

#include <utility>

#include "base/check.h"
#include "dist/sequence_guard.h"
#include "nn/attention_masks.h"
#include "nn/block_attention.h"
#include "nn/block_chain.h"
#include "nn/block_feed_forward.h"
#include "nn/block_norm.h"

namespace headway::inline v0 {

using internal::BlockNorm;
using internal::check;

namespace internal {
namespace {

constexpr const char* kTransformerBlock = "TransformerBlock";

void check_share(const char* name, double value) {
  check(value >= 0 && value < 1, kTransformerBlock, ": ", name, " is ", value, ", expected 0 or more and less than 1");
}

void check_block_heads(const BlockOptions& options) {
  check(options.kv_heads > 0 && options.heads % options.kv_heads == 0, kTransformerBlock, ": heads is ", options.heads,
        ", which is not a multiple of kv_heads, ", options.kv_heads);
  check(options.alibi_slopes.empty() || static_cast<std::int64_t>(options.alibi_slopes.size()) == options.heads,
        kTransformerBlock, ": alibi_slopes has ", options.alibi_slopes.size(), " numbers, expected one for each of ",
        options.heads, " heads");
  check(!options.fused_qkv || (options.query_bias == options.key_bias && options.key_bias == options.value_bias),
        kTransformerBlock, ": fused_qkv needs query_bias, key_bias and value_bias to be equal");
  if (options.rotary) rotary_frequencies(*options.rotary, options.head_dim, 0);  // checks them
}

}  // namespace

BlockOptions checked_block_options(BlockOptions options) {
  check(options.width > 0 && options.heads > 0, kTransformerBlock, ": width is ", options.width, " and heads is ",
        options.heads, ", expected both above 0");
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.head_dim == 0) {
    check(options.width % options.heads == 0, kTransformerBlock, ": width is ", options.width,
          ", which is not a multiple of heads, ", options.heads, "; then head_dim has to be given");
    options.head_dim = options.width / options.heads;
  }
  if (options.hidden == 0) options.hidden = 4 * options.width;
  check(options.head_dim > 0 && options.hidden > 0, kTransformerBlock, ": head_dim is ", options.head_dim,
        " and hidden is ", options.hidden, ", expected both above 0");
  check_block_heads(options);
  check(options.norm_epsilon >= 0, kTransformerBlock, ": norm_epsilon is ", options.norm_epsilon,
        ", expected 0 or more");
  check(!options.cross_attention || options.norm_place != NormPlace::both, kTransformerBlock,
        ": norm_place is both, which is not there with cross_attention");
  check(options.has_attention_norm || options.norm_place != NormPlace::after, kTransformerBlock,
        ": has_attention_norm is false, which is not there with norms after the sublayers");
  check_share("dropout", options.dropout);
  check_share("attention_dropout", options.attention_dropout);
  check_share("activation_dropout", options.activation_dropout);
  return options;
}

namespace {

void check_block_masks(const BlockInput& input, std::int64_t key_length) {
  const std::int64_t batch = input.x.size(0);
  check(!input.lengths.defined() || !input.padding_mask.defined(), kTransformerBlock,
        ": lengths and padding_mask are both given, expected one of them");
  if (input.padding_mask.defined()) {
    const Tensor& given = input.padding_mask.tensor();
    check(given.dtype() == DType::boolean && given.shape() == Shape({batch, key_length}), kTransformerBlock,
          ": padding_mask is ", given, ", expected bool", Shape({batch, key_length}));
  }
  if (!input.packed.defined()) return;
  check(batch == 1, kTransformerBlock, ": x is ", input.x, ", expected a batch of 1 with packed sequences");
  check(!input.lengths.defined() && !input.padding_mask.defined() && !input.mask.defined() && !input.bias.defined(),
        kTransformerBlock, ": packed is given with lengths, a mask or a bias, expected packed alone");
  check(!input.cache, kTransformerBlock, ": packed is given with a cache, expected one of them");
}

void check_block_memory(const BlockInput& input, const BlockOptions& options) {
  if (!options.cross_attention) {
    check(!input.memory.defined(), kTransformerBlock, ": memory is given, and the block has no cross_attention");
    return;
  }
  const bool is_cached = input.memory_cache && input.memory_cache->length() > 0;
  check(input.memory.defined() || is_cached, kTransformerBlock,
        ": memory is not given, expected [batch, source_length, ", options.width, "]");
  check(!input.memory.defined() || (input.memory.rank() == 3 && input.memory.size(0) == input.x.size(0) &&
                                    input.memory.size(2) == options.width),
        kTransformerBlock, ": memory is ", input.memory, ", expected [", input.x.size(0), ", source_length, ",
        options.width, "]");
  check(!input.memory_lengths.defined() || !input.memory_padding_mask.defined(), kTransformerBlock,
        ": memory_lengths and memory_padding_mask are both given, expected one of them");
}

// The input with lengths that were checked, and positions inside each packed sequence.
BlockInput checked_block_input(const BlockInput& input, const BlockOptions& options) {
  check(input.x.defined() && input.x.rank() == 3 && input.x.size(2) == options.width, kTransformerBlock, ": x is ",
        input.x, ", expected [batch, length, ", options.width, "]");
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  const std::int64_t key_length = guard ? whole_length(kTransformerBlock, *guard, input.x.size(1))
                                        : input.x.size(1) + (input.cache ? input.cache->length() : 0);
  check_block_masks(input, key_length);
  check_block_memory(input, options);
  BlockInput checked = input;
  checked.lengths = checked_lengths(kTransformerBlock, "lengths", input.lengths, input.x.size(0), key_length);
  if (input.packed.defined() && options.rotary && !input.positions.defined()) {
    Tensor positions = packed_positions(input.packed);
    if (guard) positions = guard->shares(key_length).take(positions, guard->ranks().rank(), 0);
    checked.positions = positions.to(input.x.device());
  }
  return checked;
}

}  // namespace

Tensor packed_positions(const CumulativeLengths& packed) {
  const Tensor ends = packed.tensor().to(Device::cpu()).to(DType::int64).contiguous();
  std::vector<std::int64_t> positions;
  for (std::int64_t s = 0; s + 1 < ends.element_count(); ++s) {
    const std::int64_t length = ends.data<std::int64_t>()[s + 1] - ends.data<std::int64_t>()[s];
    for (std::int64_t i = 0; i < length; ++i) positions.push_back(i);
  }
  return Tensor::from(positions, {static_cast<std::int64_t>(positions.size())});
}

}  // namespace internal

struct TransformerBlock::Parts {
  explicit Parts(const BlockOptions& options)
      : attention(options, /*cross=*/false), feed_forward(options), dropout(options.dropout) {
    const auto norm = [&] {
      return BlockNorm::make({.kind = options.norm,
                              .width = options.width,
                              .epsilon = options.norm_epsilon,
                              .bias = options.norm_bias,
                              .dtype = options.dtype});
    };
    if (options.has_attention_norm) attention_norm = norm();
    if (options.cross_attention) {
      cross.emplace(options, /*cross=*/true);
      cross_norm = norm();
    }
    feed_forward_norm = norm();
    if (options.norm_place == NormPlace::both) {
      attention_output_norm = norm();
      feed_forward_output_norm = norm();
    }
  }

  internal::BlockAttention attention;
  std::optional<internal::BlockAttention> cross;
  internal::BlockFeedForward feed_forward;
  BlockNorm attention_norm;
  BlockNorm attention_output_norm;
  BlockNorm cross_norm;
  BlockNorm feed_forward_norm;
  BlockNorm feed_forward_output_norm;
  Dropout dropout;
};

TransformerBlock::TransformerBlock(const BlockOptions& options)
    : options_(std::make_shared<BlockOptions>(internal::checked_block_options(options))),
      parts_(std::make_shared<Parts>(*options_)) {
  add_module("attention", parts_->attention);
  if (options_->has_attention_norm) add_module("attention_norm", parts_->attention_norm.module());
  if (parts_->cross) {
    add_module("cross", *parts_->cross);
    add_module("cross_norm", parts_->cross_norm.module());
  }
  add_module("feed_forward", parts_->feed_forward);
  add_module("feed_forward_norm", parts_->feed_forward_norm.module());
  if (options_->norm_place == NormPlace::both) {
    add_module("attention_output_norm", parts_->attention_output_norm.module());
    add_module("feed_forward_output_norm", parts_->feed_forward_output_norm.module());
  }
  add_module("dropout", parts_->dropout);
}

BlockResult TransformerBlock::forward(const BlockInput& input) const {
  internal::BlockLink alone;
  return internal::ChainedBlock::forward(*this, input, alone);
}

namespace internal {

const BlockNorm* ChainedBlock::first_norm(const TransformerBlock& block) {
  const BlockOptions& options = block.options();
  const bool begins = options.has_attention_norm && options.norm_place != NormPlace::after;
  return begins ? &block.parts_->attention_norm : nullptr;
}

BlockResult ChainedBlock::forward(const TransformerBlock& block, const BlockInput& input, BlockLink& link) {
  const TransformerBlock::Parts& parts = *block.parts_;
  BlockInput call = checked_block_input(input, block.options());
  BlockResult result;
  const auto attend = [&](const Tensor& x) {
    call.x = x;
    BlockAttentionResult attended = parts.attention.attend_self(call);
    result.weights = std::move(attended.weights);
    return parts.attention_output_norm.forward(attended.output);
  };
  const auto attend_memory = [&](const Tensor& x) {
    call.x = x;
    BlockAttentionResult attended = parts.cross->attend_memory(call);
    result.cross_weights = std::move(attended.weights);
    return attended.output;
  };
  if (block.options().norm_place == NormPlace::after) {
    Tensor x = parts.attention_norm.add_to(parts.dropout, input.x, attend(input.x)).normed;
    if (parts.cross) x = parts.cross_norm.add_to(parts.dropout, x, attend_memory(x)).normed;
    result.output = parts.feed_forward_norm.add_to(parts.dropout, x, parts.feed_forward.forward(x)).normed;
    link.normed = {};
    return result;
  }
  const Tensor normed = link.normed.defined() ? std::exchange(link.normed, {}) : parts.attention_norm.forward(input.x);
  const BlockNorm& second_norm = parts.cross ? parts.cross_norm : parts.feed_forward_norm;
  AddNorm sum = second_norm.add_to(parts.dropout, input.x, attend(normed));
  if (parts.cross) sum = parts.feed_forward_norm.add_to(parts.dropout, sum.sum, attend_memory(sum.normed));
  const Tensor output = parts.feed_forward_output_norm.forward(parts.feed_forward.forward(sum.normed));
  if (!link.next) {
    result.output = parts.dropout.add_to(sum.sum, output);
    return result;
  }
  AddNorm last = link.next->add_to(parts.dropout, sum.sum, output);
  result.output = std::move(last.sum);
  link.normed = std::move(last.normed);
  return result;
}

}  // namespace internal
}  // namespace headway::inline v0

#include "nn/block_attention.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "dist/sequence_guard.h"
#include "headway/random.h"
#include "nn/attention_masks.h"
#include "nn/initial_values.h"
#include "nn/quantized_product.h"

namespace headway::inline v0::internal {
namespace {

constexpr const char* kBlock = "TransformerBlock";

LinearOptions projection(const BlockOptions& options, std::int64_t features, bool bias) {
  return {.in_features = options.width, .out_features = features, .bias = bias, .dtype = options.dtype};
}

bool depends_on_length(const RotaryPositions& rotary) {
  return rotary.scaling.kind == RotaryScaling::Kind::dynamic || rotary.scaling.kind == RotaryScaling::Kind::longrope;
}

// The greatest position of a call plus one, without padding.
std::int64_t text_length(const BlockInput& input) {
  const auto greatest = [](const Tensor& values) {
    return values.element_count() == 0 ? 0 : static_cast<std::int64_t>(max(values.to(DType::int64)).item());
  };
  if (input.positions.defined()) {
    const std::int64_t own = input.positions.element_count() == 0 ? 0 : greatest(input.positions) + 1;
    const SequenceParallelGuard* guard = SequenceParallelGuard::current();
    return guard ? static_cast<std::int64_t>(guard->ranks().all_reduce(static_cast<double>(own), Reduce::max)) : own;
  }
  if (input.lengths.defined() && !input.cache) return greatest(input.lengths.tensor());
  return (input.cache ? input.cache->length() : 0) + input.x.size(1);
}

}  // namespace

BlockAttention::BlockAttention(const BlockOptions& options, bool cross)
    : options_(options),
      output_({.in_features = options.heads * options.head_dim,
               .out_features = options.width,
               .bias = options.output_bias,
               .dtype = options.dtype}) {
  const std::int64_t query_features = options.heads * options.head_dim;
  const std::int64_t kv_features = options.kv_heads * options.head_dim;
  if (options.fused_qkv && !cross) {
    qkv_.emplace(projection(options, query_features + 2 * kv_features, options.query_bias));
    add_module("qkv", *qkv_);
  } else {
    query_.emplace(projection(options, query_features, options.query_bias));
    key_.emplace(projection(options, kv_features, options.key_bias));
    value_.emplace(projection(options, kv_features, options.value_bias));
    add_module("query", *query_);
    add_module("key", *key_);
    add_module("value", *value_);
  }
  add_module("output", output_);
  if (cross) return;
  if (options.query_key_norm) {
    const BlockNormOptions norm = {.kind = options.norm == NormKind::layer ? NormKind::rms : options.norm,
                                   .width = options.head_dim,
                                   .epsilon = options.norm_epsilon,
                                   .dtype = options.dtype};
    query_norm_ = BlockNorm::make(norm);
    key_norm_ = BlockNorm::make(norm);
    add_module("query_norm", query_norm_.module());
    add_module("key_norm", key_norm_.module());
  }
  if (options.sinks) sinks_ = add_parameter("sinks", constant({options.heads}, 0.0, computing_dtype(options.dtype)));
  if (!options.alibi_slopes.empty()) alibi_slopes_ = Tensor::from(options.alibi_slopes, {options.heads});
  if (options.rotary && !depends_on_length(*options.rotary)) {
    frequencies_ = rotary_frequencies(*options.rotary, options.head_dim, 0);
  }
}

std::array<HeadsIn, 3> BlockAttention::project(const Tensor& x) const {
  const std::int64_t heads = options_.heads, kv_heads = options_.kv_heads, head_dim = options_.head_dim;
  if (!qkv_) {
    return {HeadsIn{query_->forward(x), 0, heads, head_dim}, HeadsIn{key_->forward(x), 0, kv_heads, head_dim},
            HeadsIn{value_->forward(x), 0, kv_heads, head_dim}};
  }
  const Tensor all = qkv_->forward(x);
  return {HeadsIn{all, 0, heads, head_dim}, HeadsIn{all, heads * head_dim, kv_heads, head_dim},
          HeadsIn{all, (heads + kv_heads) * head_dim, kv_heads, head_dim}};
}

Tensor BlockAttention::heads_of(const Tensor& projected, std::int64_t heads) const {
  return projected.view({projected.size(0), projected.size(1), heads, options_.head_dim});
}

RotaryOptions BlockAttention::rotary_options(const BlockInput& input) const {
  const RotaryPositions& rotary = *options_.rotary;
  RotaryFrequencies of_length;
  if (!frequencies_) of_length = rotary_frequencies(rotary, options_.head_dim, text_length(input));
  const RotaryFrequencies& chosen = frequencies_ ? *frequencies_ : of_length;
  return {.dims = 2 * static_cast<std::int64_t>(chosen.frequencies.size()),
          .interleaved = rotary.interleaved,
          .offset = input.positions.defined() || !input.cache ? 0 : input.cache->length(),
          .positions = input.positions,
          .frequencies = chosen.frequencies,
          .factor = chosen.factor};
}

std::array<Tensor, 3> BlockAttention::separate(const Tensor& x, const BlockInput& input) const {
  std::vector<Tensor> parts;  // [batch, length, heads * head_dim]
  if (qkv_) {
    const std::int64_t kv_features = options_.kv_heads * options_.head_dim;
    parts = split(qkv_->forward(x), {options_.heads * options_.head_dim, kv_features, kv_features}, 2);
  } else {
    parts = {query_->forward(x), key_->forward(x), value_->forward(x)};
  }
  Tensor query = query_norm_.forward(heads_of(parts[0], options_.heads)).transpose(1, 2);
  Tensor key = key_norm_.forward(heads_of(parts[1], options_.kv_heads)).transpose(1, 2);
  if (options_.rotary) {
    const RotaryOptions rotation = rotary_options(input);
    query = rotary(query, rotation);
    key = rotary(key, rotation);
  }
  return {query, key, heads_of(parts[2], options_.kv_heads).transpose(1, 2)};
}

void BlockAttention::set_common(const BlockInput& input, AttentionOptions& options) const {
  options.scale = options_.scale;
  options.weights = input.weights;
  if (options_.attention_dropout > 0 && is_training()) {
    options.dropout = options_.attention_dropout;
    options.seed = next_random_seed();
  }
}

AttentionOptions BlockAttention::self_options(const BlockInput& input, std::int64_t key_length,
                                              std::int64_t cached) const {
  AttentionOptions options;
  if (input.packed.defined()) {
    options.cu_query_lengths = input.packed;
    options.cu_key_lengths = input.packed;
    options.causal = options_.causal ? Causal::top_left : Causal::none;
  } else {
    set_masks({.key_lengths = input.lengths,
               .padding = input.padding_mask,
               .mask = input.mask,
               .bias = input.bias,
               .causal = options_.causal ? Causal::top_left : Causal::none},
              {.function = kBlock,
               .batch = input.x.size(0),
               .heads = options_.heads,
               .query_length = input.x.size(1),
               .key_length = key_length,
               .query_offset = cached,
               .dtype = input.x.dtype(),
               .device = input.x.device()},
              options);
    if (cached > 0) options.query_offset = cached;
  }
  options.window = options_.window;
  options.softcap = options_.softcap;
  options.alibi_slopes = alibi_slopes_;
  options.sinks = sinks_.get();
  set_common(input, options);
  return options;
}

BlockAttentionResult BlockAttention::finish(const AttentionResult& attended) const {
  const Tensor rows = attended.output.transpose(1, 2);  // [batch, length, heads, head_dim]
  return {.output = output_.forward(rows.reshape({rows.size(0), rows.size(1), rows.size(2) * rows.size(3)})),
          .weights = attended.weights};
}

BlockAttentionResult BlockAttention::attend_self(const BlockInput& input) const {
  const std::int64_t length = input.x.size(1);
  if (const SequenceParallelGuard* guard = SequenceParallelGuard::current()) return attend_self_over(*guard, input);
  if (!input.cache && !options_.rotary && !options_.query_key_norm) {
    const std::array<HeadsIn, 3> heads = project(input.x);
    return finish(attention_of_heads(heads[0], heads[1], heads[2], self_options(input, length, 0)));
  }
  auto [query, key, value] = separate(input.x, input);
  if (input.cache) std::tie(key, value) = input.cache->append(key, value);
  return finish(attention(query, key, value, self_options(input, key.size(2), key.size(2) - length)));
}

// The sequences are cut over ranks.
BlockAttentionResult BlockAttention::attend_self_over(const SequenceParallelGuard& guard,
                                                      const BlockInput& input) const {
  if (input.cache) check_not_cut(kBlock, "a cache");
  const std::int64_t whole = whole_length(kBlock, guard, input.x.size(1));
  BlockInput own = input;
  if (options_.rotary && !input.positions.defined()) {
    own.positions = guard.shares(whole).positions(guard.ranks().rank()).to(input.x.device());
  }
  const auto [query, key, value] = separate(input.x, own);
  return finish(sequence_attention(query, key, value, self_options(own, whole, 0), guard.ranks(), guard.options()));
}

BlockAttentionResult BlockAttention::attend_memory(const BlockInput& input) const {
  const HeadsIn query = {query_->forward(input.x), 0, options_.heads, options_.head_dim};
  const bool is_cached = input.memory_cache && input.memory_cache->length() > 0;
  HeadsIn key = {Tensor(), 0, options_.kv_heads, options_.head_dim}, value = key;
  if (!is_cached) {
    key.source = key_->forward(input.memory);
    value.source = value_->forward(input.memory);
  }
  const SequenceParallelGuard* guard = SequenceParallelGuard::current();
  if (guard && input.memory_cache) check_not_cut(kBlock, "a cache");
  const std::int64_t key_length = is_cached ? input.memory_cache->length()
                                  : guard   ? whole_length(kBlock, *guard, input.memory.size(1))
                                            : input.memory.size(1);
  AttentionOptions options;
  set_masks({.key_lengths = input.memory_lengths, .padding = input.memory_padding_mask},
            {.function = kBlock,
             .batch = input.x.size(0),
             .heads = options_.heads,
             .query_length = input.x.size(1),
             .key_length = key_length,
             .dtype = input.x.dtype(),
             .device = input.x.device()},
            options);
  set_common(input, options);
  if (guard) {
    return finish(sequence_attention(query.view(query.source), key.view(key.source), value.view(value.source), options,
                                     guard->ranks(), guard->options()));
  }
  if (!input.memory_cache) return finish(attention_of_heads(query, key, value, options));
  if (!is_cached) input.memory_cache->append(key.view(key.source), value.view(value.source));
  return finish(attention(query.view(query.source), input.memory_cache->keys(), input.memory_cache->values(), options));
}

}  // namespace headway::inline v0::internal

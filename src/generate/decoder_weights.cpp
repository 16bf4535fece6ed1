#include "generate/decoder_weights.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "generate/parameter_reader.h"
#include "headway/autograd.h"
#include "models/relative_bias.h"

namespace headway::inline v0::internal {
namespace {

AttentionWeights read_self_attention(const ParameterReader& reader, const BlockOptions& options) {
  AttentionWeights weights;
  const std::int64_t head_dim = options.head_dim > 0 ? options.head_dim : options.width / options.heads;
  weights.place = options.norm_place;
  if (options.has_attention_norm) weights.norm = reader.norm("attention_norm", options.norm, options.norm_epsilon);
  if (options.norm_place == NormPlace::both) {
    weights.output_norm = reader.norm("attention_output_norm", options.norm, options.norm_epsilon);
  }
  weights.in = options.fused_qkv ? reader.joined({"attention.qkv"})
                                 : reader.joined({"attention.query", "attention.key", "attention.value"});
  weights.out = reader.packed("attention.output");
  weights.scores = {.heads = options.heads,
                    .kv_heads = options.kv_heads > 0 ? options.kv_heads : options.heads,
                    .head_dim = head_dim,
                    .scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(head_dim))),
                    .softcap = options.softcap.value_or(0.0),
                    .window = options.window.left.value_or(-1)};
  const Device device = reader.device();
  if (!options.alibi_slopes.empty()) {
    weights.scores.alibi_slopes = Tensor::from(options.alibi_slopes, {options.heads}).to(DType::float32).to(device);
  }
  if (options.sinks) weights.scores.sinks = reader.get("attention.sinks").to(DType::float32).contiguous();
  if (options.query_key_norm) {
    weights.query_norm = reader.norm("attention.query_norm", options.norm, options.norm_epsilon).weight;
    weights.key_norm = reader.norm("attention.key_norm", options.norm, options.norm_epsilon).weight;
    weights.norm_epsilon = options.norm_epsilon;
  }
  return weights;
}

AttentionWeights read_cross_attention(const ParameterReader& reader, const BlockOptions& options,
                                      const StepScores& self) {
  AttentionWeights weights;
  weights.place = options.norm_place;
  weights.norm = reader.norm("cross_norm", options.norm, options.norm_epsilon);
  weights.in = reader.joined({"cross.query"});
  weights.out = reader.packed("cross.output");
  const Tensor key = reader.find("cross.key.bias"), value = reader.find("cross.value.bias");
  const Tensor joined = concat({reader.get("cross.key.weight"), reader.get("cross.value.weight")});
  const Tensor bias = joined_biases({key, value}, {joined.size(0) / 2, joined.size(0) / 2}, joined);
  if (joined.dtype() == DType::int8) {
    const Tensor scales = concat({reader.get("cross.key.weight_scale"), reader.get("cross.value.weight_scale")});
    weights.memory = pack_weight({joined, scales}, bias);
  } else {
    weights.memory_weight = joined;
    weights.memory_bias = bias;
  }
  weights.scores = {.heads = self.heads, .kv_heads = self.kv_heads, .head_dim = self.head_dim, .scale = self.scale};
  return weights;
}

FeedForwardWeights read_feed_forward(const ParameterReader& reader, const BlockOptions& options) {
  FeedForwardWeights weights;
  weights.place = options.norm_place;
  weights.norm = reader.norm("feed_forward_norm", options.norm, options.norm_epsilon);
  if (options.norm_place == NormPlace::both) {
    weights.output_norm = reader.norm("feed_forward_output_norm", options.norm, options.norm_epsilon);
  }
  if (!options.gated) {
    weights.in = reader.joined({"feed_forward.up"});
  } else {
    weights.in = options.fused_gate_up ? reader.joined({"feed_forward.gate_up"})
                                       : reader.joined({"feed_forward.gate", "feed_forward.up"});
  }
  weights.out = reader.packed("feed_forward.down");
  weights.activation = options.activation;
  weights.gated = options.gated;
  return weights;
}

bool is_same(const RotaryPositions& a, const RotaryPositions& b) {
  const RotaryScaling &x = a.scaling, &y = b.scaling;
  return a.base == b.base && a.dims == b.dims && a.interleaved == b.interleaved && a.max_length == b.max_length &&
         x.kind == y.kind && x.factor == y.factor && x.original_length == y.original_length &&
         x.low_frequency_factor == y.low_frequency_factor && x.high_frequency_factor == y.high_frequency_factor &&
         x.beta_fast == y.beta_fast && x.beta_slow == y.beta_slow && x.truncate == y.truncate &&
         x.attention_factor == y.attention_factor && x.mscale == y.mscale && x.mscale_all_dim == y.mscale_all_dim &&
         x.short_factors == y.short_factors && x.long_factors == y.long_factors;
}

// The number of a layer's rotary positions in the list of all, which have their number of dims filled in.
std::int64_t rotary_number(const BlockOptions& options, std::int64_t head_dim, std::vector<RotaryPositions>& all) {
  if (!options.rotary) return -1;
  RotaryPositions rotary = *options.rotary;
  if (rotary.dims == 0) rotary.dims = head_dim;
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& other) { return is_same(rotary, other); });
  const auto number = found - all.begin();
  if (found == all.end()) all.push_back(rotary);
  return number;
}

}  // namespace

Tensor distance_bias_of(const Tensor& weight, std::int64_t max_distance) {
  const std::int64_t heads = weight.size(1);
  const std::vector<double> values = weight.to(Device::cpu()).to_vector();
  const Tensor table = Tensor::empty({heads, max_distance + 1});
  for (std::int64_t distance = 0; distance <= max_distance; ++distance) {
    const std::int64_t bucket =
        relative_bucket(-distance, {.count = weight.size(0), .max_distance = max_distance, .bidirectional = false});
    for (std::int64_t head = 0; head < heads; ++head) {
      table.data<float>()[head * (max_distance + 1) + distance] =
          static_cast<float>(values[static_cast<std::size_t>(bucket * heads + head)]);
    }
  }
  return table.to(weight.device());
}

DecoderWeights decoder_weights(const TransformerModel& model) {
  const TransformerModelOptions& options = model.options();
  check(options.kind != ModelKind::encoder && options.head.kind == HeadKind::language_model, "the model of family ",
        model.family(), " has no decoder with logits of tokens: it cannot generate");
  const NoGradGuard guard;
  const StateDict state = model.state_dict();
  const StackOptions& stack = options.decoder;
  const ParameterReader reader(state, "");
  const ParameterReader decoder(state, "decoder.");
  DecoderWeights weights;
  const ParameterReader& embedding = options.separate_embeddings ? decoder : reader;
  weights.embedding = embedding.get("embedding.weight").contiguous();
  weights.embedding_scales = embedding.find("embedding.weight_scale");
  weights.embedding_scale = stack.embedding_scale;
  if (stack.embedding_norm) weights.embedding_norm = decoder.norm("embedding_norm", stack.norm, stack.norm_epsilon);
  if (stack.positions == PositionKind::learned) {
    const Tensor table = decoder.get("positions.weight");
    weights.positions = table.slice(0, stack.position_offset, table.size(0)).contiguous();
    weights.most_positions = weights.positions.size(0);
  } else if (stack.positions == PositionKind::sinusoidal) {
    weights.positions = sinusoidal_positions(stack.max_positions + stack.position_offset, stack.width, stack.sinusoid)
                            .slice(0, stack.position_offset, stack.max_positions + stack.position_offset)
                            .contiguous()
                            .to(weights.dtype())
                            .to(weights.device());
  }
  if (weights.most_positions == 0) weights.most_positions = stack.max_positions;
  Tensor distance_bias;
  if (stack.positions == PositionKind::relative_bias) {
    distance_bias = distance_bias_of(decoder.get("relative_bias.weight"), stack.relative_max_distance);
  }
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    const BlockOptions& block = stack.layers[i];
    const ParameterReader layer(state, "decoder.layers." + std::to_string(i) + ".");
    DecoderLayerWeights& made = weights.layers.emplace_back();
    made.self = read_self_attention(layer, block);
    made.self.scores.distance_bias = distance_bias;
    made.self.rotary = rotary_number(block, made.self.scores.head_dim, weights.rotaries);
    if (block.cross_attention) made.cross = read_cross_attention(layer, block, made.self.scores);
    made.feed_forward = read_feed_forward(layer, block);
  }
  if (stack.final_norm) weights.final_norm = decoder.norm("norm", stack.norm, stack.norm_epsilon);
  weights.logit_scale = options.head.logit_scale;
  weights.logit_softcap = options.head.softcap.value_or(0.0);
  weights.output = options.head.tied
                       ? pack_rows(weights.embedding, weights.embedding_scales, reader.find("head.output.bias"))
                       : reader.packed("head.output");
  weights.has_sources = options.kind == ModelKind::encoder_decoder;
  weights.most_source = options.encoder.max_positions;
  return weights;
}

}  // namespace headway::inline v0::internal

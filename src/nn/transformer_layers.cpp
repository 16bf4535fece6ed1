// One layer of the encoder and one of the decoder.
#include "headway/transformer.h"

namespace headway::inline v0 {
namespace {

MultiHeadAttentionOptions attention_options(const TransformerLayerOptions& options) {
  return {.embed_dim = options.d_model,
          .num_heads = options.nhead,
          .bias = options.bias,
          .dropout = options.attention_dropout.value_or(options.dropout),
          .batch_first = options.batch_first,
          .dtype = options.dtype};
}

LinearOptions first_linear(const TransformerLayerOptions& options) {
  return {.in_features = options.d_model,
          .out_features = options.dim_feedforward,
          .bias = options.bias,
          .activation = options.activation,
          .dtype = options.dtype};
}

LinearOptions second_linear(const TransformerLayerOptions& options) {
  return {.in_features = options.dim_feedforward,
          .out_features = options.d_model,
          .bias = options.bias,
          .dtype = options.dtype};
}

LayerNormOptions norm(const TransformerLayerOptions& options) {
  return {.width = options.d_model, .epsilon = options.layer_norm_eps, .bias = options.bias, .dtype = options.dtype};
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& options)
    : options_(options),
      self_attn_(attention_options(options)),
      linear1_(first_linear(options)),
      linear2_(second_linear(options)),
      norm1_(norm(options)),
      norm2_(norm(options)),
      dropout_(options.dropout),
      activation_dropout_(options.activation_dropout.value_or(options.dropout)) {
  add_module("self_attn", self_attn_);
  add_module("linear1", linear1_);
  add_module("linear2", linear2_);
  add_module("norm1", norm1_);
  add_module("norm2", norm2_);
  add_module("dropout", dropout_);
  add_module("activation_dropout", activation_dropout_);
}

EncoderLayerResult TransformerEncoderLayer::forward(const EncoderInput& input) const {
  EncoderLayerResult result;
  const auto attend = [&](const Tensor& x) {
    auto [output, weights] = self_attn_.forward({.query = x,
                                                 .causal = input.causal,
                                                 .key_lengths = input.source_lengths,
                                                 .key_padding_mask = input.padding_mask,
                                                 .mask = input.mask,
                                                 .weights = input.weights});
    result.weights = weights;
    return output;
  };
  const auto feed_forward = [&](const Tensor& x) { return linear2_.forward(activation_dropout_.forward(linear1_, x)); };
  Tensor x = input.source;
  if (options_.norm_first) {
    const auto [normed, sum] = dropout_.add_to(x, attend(norm1_.forward(x)), norm2_);
    result.output = dropout_.add_to(sum, feed_forward(normed));
    return result;
  }
  x = dropout_.add_to(x, attend(x), norm1_).normed;
  result.output = dropout_.add_to(x, feed_forward(x), norm2_).normed;
  return result;
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& options)
    : options_(options),
      self_attn_(attention_options(options)),
      multihead_attn_(attention_options(options)),
      linear1_(first_linear(options)),
      linear2_(second_linear(options)),
      norm1_(norm(options)),
      norm2_(norm(options)),
      norm3_(norm(options)),
      dropout_(options.dropout),
      activation_dropout_(options.activation_dropout.value_or(options.dropout)) {
  add_module("self_attn", self_attn_);
  add_module("multihead_attn", multihead_attn_);
  add_module("linear1", linear1_);
  add_module("linear2", linear2_);
  add_module("norm1", norm1_);
  add_module("norm2", norm2_);
  add_module("norm3", norm3_);
  add_module("dropout", dropout_);
  add_module("activation_dropout", activation_dropout_);
}

DecoderLayerResult TransformerDecoderLayer::forward(const DecoderInput& input) const {
  return forward(input, nullptr, nullptr);
}

DecoderLayerResult TransformerDecoderLayer::forward(const DecoderInput& input, KeyValueCache* self_cache,
                                                    KeyValueCache* memory_cache) const {
  DecoderLayerResult result;
  const auto attend_self = [&](const Tensor& x) {
    auto [output, weights] = self_attn_.forward({.query = x,
                                                 .causal = input.target_causal,
                                                 .key_lengths = input.target_lengths,
                                                 .key_padding_mask = input.target_padding_mask,
                                                 .mask = input.target_mask,
                                                 .weights = input.weights,
                                                 .cache = self_cache});
    result.self_weights = weights;
    return output;
  };
  const auto attend_memory = [&](const Tensor& x) {
    auto [output, weights] = multihead_attn_.forward({.query = x,
                                                      .key = input.memory,
                                                      .value = input.memory,
                                                      .key_lengths = input.memory_lengths,
                                                      .key_padding_mask = input.memory_padding_mask,
                                                      .mask = input.memory_mask,
                                                      .weights = input.weights,
                                                      .cache = memory_cache,
                                                      .cache_is_static = memory_cache != nullptr});
    result.memory_weights = weights;
    return output;
  };
  const auto feed_forward = [&](const Tensor& x) { return linear2_.forward(activation_dropout_.forward(linear1_, x)); };
  Tensor x = input.target;
  if (options_.norm_first) {
    const AddNorm first = dropout_.add_to(x, attend_self(norm1_.forward(x)), norm2_);
    const AddNorm second = dropout_.add_to(first.sum, attend_memory(first.normed), norm3_);
    result.output = dropout_.add_to(second.sum, feed_forward(second.normed));
    return result;
  }
  x = dropout_.add_to(x, attend_self(x), norm1_).normed;
  x = dropout_.add_to(x, attend_memory(x), norm2_).normed;
  result.output = dropout_.add_to(x, feed_forward(x), norm3_).normed;
  return result;
}

}  // namespace headway::inline v0

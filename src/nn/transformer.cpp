// Stacks of layers, and the Transformer made of two.
#include "headway/transformer.h"

#include <string>

#include "base/check.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {
namespace {

TransformerStackOptions stack_options(const TransformerOptions& options, std::int64_t num_layers) {
  return {.layer = {.d_model = options.d_model,
                    .nhead = options.nhead,
                    .dim_feedforward = options.dim_feedforward,
                    .dropout = options.dropout,
                    .activation = options.activation,
                    .layer_norm_eps = options.layer_norm_eps,
                    .batch_first = options.batch_first,
                    .norm_first = options.norm_first,
                    .bias = options.bias,
                    .dtype = options.dtype},
          .num_layers = num_layers,
          .final_norm = true};
}

LayerNorm final_norm(const TransformerStackOptions& options) {
  return LayerNorm({.features = options.layer.d_model,
                    .epsilon = options.layer.layer_norm_eps,
                    .bias = options.layer.bias,
                    .dtype = options.layer.dtype});
}

void check_layers(const char* name, std::int64_t num_layers) {
  internal::check(num_layers >= 0, name, ": num_layers is ", num_layers, ", expected 0 or more");
}

}  // namespace

void DecoderCache::reorder(const std::vector<std::int64_t>& entries) {
  for (KeyValueCache& cache : self_attention) cache.reorder(entries);
  for (KeyValueCache& cache : memory_attention) cache.reorder(entries);
}

TransformerEncoder::TransformerEncoder(const TransformerStackOptions& options) {
  check_layers("TransformerEncoder", options.num_layers);
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers_.emplace_back(options.layer);
    add_module("layers." + std::to_string(i), layers_.back());
  }
  if (options.final_norm) {
    norm_ = final_norm(options);
    add_module("norm", *norm_);
  }
}

Tensor TransformerEncoder::forward(const EncoderInput& input) const {
  EncoderInput step = input;
  for (const TransformerEncoderLayer& layer : layers_) step.source = layer.forward(step);
  return norm_ ? norm_->forward(step.source) : step.source;
}

TransformerDecoder::TransformerDecoder(const TransformerStackOptions& options) {
  check_layers("TransformerDecoder", options.num_layers);
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers_.emplace_back(options.layer);
    add_module("layers." + std::to_string(i), layers_.back());
  }
  if (options.final_norm) {
    norm_ = final_norm(options);
    add_module("norm", *norm_);
  }
}

Tensor TransformerDecoder::forward(const DecoderInput& input) const {
  DecoderInput step = input;
  for (const TransformerDecoderLayer& layer : layers_) step.target = layer.forward(step);
  return norm_ ? norm_->forward(step.target) : step.target;
}

Tensor TransformerDecoder::forward(const DecoderInput& input, DecoderCache& cache) const {
  cache.self_attention.resize(layers_.size());
  cache.memory_attention.resize(layers_.size());
  DecoderInput step = input;
  step.target_causal = Causal::top_left;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    step.target = layers_[i].forward(step, &cache.self_attention[i], &cache.memory_attention[i]);
  }
  return norm_ ? norm_->forward(step.target) : step.target;
}

Transformer::Transformer(const TransformerOptions& options)
    : encoder_(stack_options(options, options.num_encoder_layers)),
      decoder_(stack_options(options, options.num_decoder_layers)) {
  add_module("encoder", encoder_);
  add_module("decoder", decoder_);
  for (const Tensor& parameter : parameters()) {
    if (parameter.rank() > 1) {
      parameter.detach().copy_from(internal::xavier_uniform(parameter.shape(), parameter.dtype()));
    }
  }
}

Tensor Transformer::forward(const TransformerInput& input) const {
  const Tensor memory = encoder_.forward({.source = input.source,
                                          .mask = input.source_mask,
                                          .padding_mask = input.source_padding_mask,
                                          .causal = input.source_causal});
  return decoder_.forward({.target = input.target,
                           .memory = memory,
                           .target_mask = input.target_mask,
                           .memory_mask = input.memory_mask,
                           .target_padding_mask = input.target_padding_mask,
                           .memory_padding_mask = input.memory_padding_mask,
                           .target_causal = input.target_causal});
}

}  // namespace headway::inline v0

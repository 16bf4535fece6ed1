// Stacks of layers, and the Transformer made of two.
#include "headway/transformer.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "nn/attention_masks.h"
#include "nn/initial_values.h"

namespace headway::inline v0 {
namespace {

TransformerStackOptions stack_options(const TransformerOptions& options, std::int64_t num_layers) {
  return {.layer = options.layer, .num_layers = num_layers, .final_norm = true};
}

LayerNorm final_norm(const TransformerStackOptions& options) {
  return LayerNorm({.width = options.layer.d_model,
                    .epsilon = options.layer.layer_norm_eps,
                    .bias = options.layer.bias,
                    .dtype = options.layer.dtype});
}

// Makes the layers and the final norm of a stack, and gives each to add(name, module).
template <typename Layer, typename Add>
void make_stack(const char* stack, const TransformerStackOptions& options, std::vector<Layer>& layers,
                std::optional<LayerNorm>& norm, const Add& add) {
  internal::check(options.num_layers >= 0, stack, ": num_layers is ", options.num_layers, ", expected 0 or more");
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    layers.emplace_back(options.layer);
    add("layers." + std::to_string(i), layers.back());
  }
  if (options.final_norm) {
    norm = final_norm(options);
    add("norm", *norm);
  }
}

}  // namespace

void DecoderCache::reorder(const std::vector<std::int64_t>& entries) {
  for (KeyValueCache& cache : self_attention) cache.reorder(entries);
  for (KeyValueCache& cache : memory_attention) cache.reorder(entries);
}

TransformerEncoder::TransformerEncoder(const TransformerStackOptions& options) {
  const auto add = [this](const std::string& name, const Module& module) { add_module(name, module); };
  make_stack("TransformerEncoder", options, layers_, norm_, add);
}

EncoderResult TransformerEncoder::forward(const EncoderInput& input) const {
  EncoderInput step = input;
  internal::bring_to_host(step.source_lengths, step.padding_mask);
  EncoderResult result;
  for (const TransformerEncoderLayer& layer : layers_) {
    const auto [output, weights] = layer.forward(step);
    step.source = output;
    if (input.weights != Weights::none) result.weights.push_back(weights);
  }
  result.output = norm_ ? norm_->forward(step.source) : step.source;
  return result;
}

TransformerDecoder::TransformerDecoder(const TransformerStackOptions& options) {
  const auto add = [this](const std::string& name, const Module& module) { add_module(name, module); };
  make_stack("TransformerDecoder", options, layers_, norm_, add);
}

DecoderResult TransformerDecoder::run(const DecoderInput& input, DecoderCache* cache) const {
  DecoderInput step = input;
  internal::bring_to_host(step.target_lengths, step.target_padding_mask);
  internal::bring_to_host(step.memory_lengths, step.memory_padding_mask);
  DecoderResult result;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const auto [output, self_weights, memory_weights] =
        cache ? layers_[i].forward(step, &cache->self_attention[i], &cache->memory_attention[i])
              : layers_[i].forward(step);
    step.target = output;
    if (input.weights == Weights::none) continue;
    result.self_weights.push_back(self_weights);
    result.memory_weights.push_back(memory_weights);
  }
  result.output = norm_ ? norm_->forward(step.target) : step.target;
  return result;
}

DecoderResult TransformerDecoder::forward(const DecoderInput& input) const { return run(input, nullptr); }

DecoderResult TransformerDecoder::forward(const DecoderInput& input, DecoderCache& cache) const {
  cache.self_attention.resize(layers_.size());
  cache.memory_attention.resize(layers_.size());
  DecoderInput causal = input;
  causal.target_causal = Causal::top_left;
  return run(causal, &cache);
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

TransformerResult Transformer::forward(const TransformerInput& input) const {
  PerEntry source_lengths = input.source_lengths;
  Mask source_padding_mask = input.source_padding_mask;
  internal::bring_to_host(source_lengths, source_padding_mask);
  EncoderResult encoded = encoder_.forward({.source = input.source,
                                            .source_lengths = source_lengths,
                                            .mask = input.source_mask,
                                            .padding_mask = source_padding_mask,
                                            .causal = input.source_causal,
                                            .weights = input.weights});
  DecoderResult decoded = decoder_.forward({.target = input.target,
                                            .memory = encoded.output,
                                            .target_lengths = input.target_lengths,
                                            .memory_lengths = source_lengths,
                                            .target_mask = input.target_mask,
                                            .memory_mask = input.memory_mask,
                                            .target_padding_mask = input.target_padding_mask,
                                            .memory_padding_mask = input.memory_padding_mask,
                                            .target_causal = input.target_causal,
                                            .weights = input.weights});
  return {.output = decoded.output,
          .encoder_weights = std::move(encoded.weights),
          .decoder_weights = std::move(decoded.self_weights),
          .cross_weights = std::move(decoded.memory_weights)};
}

}  // namespace headway::inline v0

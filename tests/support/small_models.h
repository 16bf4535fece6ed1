// Small models as the families have them, with random parameters.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "headway/ops.h"
#include "models/transformer_model_parts.h"

namespace headway_test {

inline constexpr std::int64_t kVocabulary = 11;
inline constexpr std::int64_t kModelWidth = 8;

inline headway::TransformerModel random_model(const headway::TransformerModelOptions& options) {
  const headway::TransformerModel model =
      headway::internal::make_transformer_model(options, "test", "{}", "", headway::DType::float64, true);
  std::uint64_t seed = 100;
  for (const auto& [name, parameter] : model.named_parameters()) {
    parameter.detach().copy_from(
        headway::scale(headway::Tensor::randn(parameter.shape(), ++seed, headway::DType::float64), 0.4));
  }
  model.eval();
  return model;
}

inline headway::StackOptions stack_of(const headway::BlockOptions& block, std::int64_t layers) {
  headway::StackOptions stack = {.layers = std::vector<headway::BlockOptions>(static_cast<std::size_t>(layers), block),
                                 .width = kModelWidth};
  for (headway::BlockOptions& layer : stack.layers) layer.width = kModelWidth, layer.hidden = 6;
  return stack;
}

// Small models as the families have them.
inline headway::TransformerModelOptions bert(const headway::HeadOptions& head) {
  headway::TransformerModelOptions options = {.vocab_size = kVocabulary, .head = head};
  options.encoder = stack_of({.heads = 2, .norm_place = headway::NormPlace::after}, 2);
  options.encoder.embedding_norm = true;
  options.encoder.token_types = 2;
  options.encoder.positions = headway::PositionKind::learned;
  options.encoder.max_positions = 7;
  options.encoder.position_offset = 2;
  return options;
}

inline headway::TransformerModelOptions modern_bert() {
  headway::TransformerModelOptions options = {.vocab_size = kVocabulary};
  options.encoder = stack_of({.heads = 2,
                              .norm_bias = false,
                              .gated = true,
                              .fused_qkv = true,
                              .fused_gate_up = true,
                              .rotary = headway::RotaryPositions{.base = 100}},
                             2);
  options.encoder.layers[0].has_attention_norm = false;
  options.encoder.layers[1].window = {.left = 1, .right = 1};
  options.encoder.embedding_norm = options.encoder.final_norm = true;
  options.encoder.norm_bias = false;
  options.head = {.kind = headway::HeadKind::sequence,
                  .labels = 3,
                  .dense = true,
                  .dense_activation = headway::Activation::gelu,
                  .dense_norm = true,
                  .pooling = headway::HeadOptions::Pooling::mean};
  return options;
}

inline headway::TransformerModelOptions gpt2() {
  headway::TransformerModelOptions options = {.kind = headway::ModelKind::decoder, .vocab_size = kVocabulary};
  options.decoder =
      stack_of({.heads = 2, .activation = headway::Activation::gelu_tanh, .fused_qkv = true, .causal = true}, 2);
  options.decoder.positions = headway::PositionKind::learned;
  options.decoder.max_positions = 9;
  options.decoder.final_norm = true;
  options.head = {.kind = headway::HeadKind::language_model, .tied = true, .bias = false};
  return options;
}

inline headway::TransformerModelOptions gemma() {
  headway::TransformerModelOptions options = {.kind = headway::ModelKind::decoder, .vocab_size = kVocabulary};
  headway::BlockOptions block = {.heads = 2,
                                 .kv_heads = 1,
                                 .head_dim = 6,
                                 .norm = headway::NormKind::rms_plus_one,
                                 .norm_place = headway::NormPlace::both,
                                 .activation = headway::Activation::gelu_tanh,
                                 .gated = true,
                                 .query_key_norm = true,
                                 .causal = true};
  block.query_bias = block.key_bias = block.value_bias = block.output_bias = block.feed_forward_bias = false;
  block.rotary = headway::RotaryPositions{.base = 100};
  options.decoder = stack_of(block, 2);
  options.decoder.layers[0].window.left = 2;
  options.decoder.layers[0].rotary->base = 10;
  options.decoder.norm = headway::NormKind::rms_plus_one;
  options.decoder.embedding_scale = std::sqrt(8.0);
  options.decoder.final_norm = true;
  options.head = {.kind = headway::HeadKind::language_model, .tied = true, .bias = false, .softcap = 2.0};
  return options;
}

inline headway::TransformerModelOptions t5() {
  headway::TransformerModelOptions options = {.kind = headway::ModelKind::encoder_decoder, .vocab_size = kVocabulary};
  headway::BlockOptions block = {
      .heads = 2, .head_dim = 3, .norm = headway::NormKind::rms, .activation = headway::Activation::relu, .scale = 1.0};
  block.query_bias = block.key_bias = block.value_bias = block.output_bias = block.feed_forward_bias = false;
  options.encoder = stack_of(block, 2);
  block.causal = block.cross_attention = true;
  options.decoder = stack_of(block, 2);
  for (headway::StackOptions* stack : {&options.encoder, &options.decoder}) {
    stack->positions = headway::PositionKind::relative_bias;
    stack->relative_buckets = 6;
    stack->relative_max_distance = 5;
    stack->norm = headway::NormKind::rms;
    stack->final_norm = true;
  }
  options.head = {.kind = headway::HeadKind::language_model, .bias = false, .logit_scale = 0.35};
  return options;
}

inline headway::TransformerModelOptions marian() {
  headway::TransformerModelOptions options = {.kind = headway::ModelKind::encoder_decoder, .vocab_size = kVocabulary};
  headway::BlockOptions block = {
      .heads = 2, .norm_place = headway::NormPlace::after, .activation = headway::Activation::silu};
  options.encoder = stack_of(block, 1);
  block.causal = block.cross_attention = true;
  options.decoder = stack_of(block, 2);
  for (headway::StackOptions* stack : {&options.encoder, &options.decoder}) {
    stack->positions = headway::PositionKind::sinusoidal;
    stack->max_positions = 8;
    stack->embedding_scale = 2.0;
  }
  options.separate_embeddings = true;
  options.head = {.kind = headway::HeadKind::language_model, .tied = true};
  return options;
}

struct ModelCase {
  std::string name;
  headway::TransformerModelOptions options;
};
inline std::vector<ModelCase> model_cases() {
  using Pooling = headway::HeadOptions::Pooling;
  headway::HeadOptions roberta = {
      .kind = headway::HeadKind::sequence, .labels = 3, .dense = true, .dense_activation = headway::Activation::tanh};
  headway::TransformerModelOptions with_pooler = bert({.kind = headway::HeadKind::sequence, .labels = 2});
  with_pooler.pooler = true;
  headway::TransformerModelOptions last = gpt2();
  last.head = {.kind = headway::HeadKind::sequence, .labels = 2, .bias = false, .pooling = Pooling::last};
  return {{"bert", bert({})},
          {"bert, masked words", bert({.kind = headway::HeadKind::language_model,
                                       .tied = true,
                                       .dense = true,
                                       .dense_activation = headway::Activation::gelu,
                                       .dense_norm = true})},
          {"bert, tokens", bert({.kind = headway::HeadKind::tokens, .labels = 4})},
          {"bert, span", bert({.kind = headway::HeadKind::span})},
          {"bert, pooler", with_pooler},
          {"roberta, sequence", bert(roberta)},
          {"modernbert", modern_bert()},
          {"gpt2", gpt2()},
          {"gpt2, sequence", last},
          {"gemma", gemma()},
          {"t5", t5()},
          {"marian", marian()}};
}

}  // namespace headway_test

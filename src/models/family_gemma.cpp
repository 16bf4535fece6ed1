// Gemma 2 and 3: norms before and after each sublayer, and windows in most layers.
#include <cmath>

#include "models/llama_layout.h"

namespace headway::inline v0::internal {
namespace {

// What both have in common; `sliding` says which layers have a window where layer_types does not.
TransformerModelOptions read_gemma(const ModelConfig& config, HeadKind kind, const LlamaDefaults& defaults,
                                   const std::function<bool(std::int64_t)>& sliding) {
  config.require("use_bidirectional_attention", false);
  TransformerModelOptions options = read_llama_layout(config, kind, defaults);
  StackOptions& stack = options.decoder;
  stack.norm = NormKind::rms_plus_one;
  stack.embedding_scale = std::sqrt(static_cast<double>(stack.width));
  const bool language_model = kind == HeadKind::language_model;
  if (language_model) options.head.softcap = config.maybe_number("final_logit_softcapping");

  const bool bias = config.boolean("attention_bias", false);
  const double scale = 1.0 / std::sqrt(config.positive("query_pre_attn_scalar", 256.0));
  const std::vector<std::string> types =
      read_layer_types(config, static_cast<std::int64_t>(stack.layers.size()), sliding);
  for (std::size_t i = 0; i < stack.layers.size(); ++i) {
    BlockOptions& block = stack.layers[i];
    block.norm = NormKind::rms_plus_one;
    block.norm_place = NormPlace::both;
    block.query_bias = block.key_bias = block.value_bias = block.output_bias = bias;
    block.scale = scale;
    block.softcap = config.maybe_number("attn_logit_softcapping");
    if (types[i] == "sliding_attention") set_window(config.size("sliding_window", 4096), block);
  }
  return options;
}

constexpr LlamaDefaults kGemmaDefaults = {.vocab_size = 256000,
                                          .width = 2304,
                                          .hidden = 9216,
                                          .layers = 26,
                                          .heads = 8,
                                          .kv_heads = 4,
                                          .head_dim = 256,
                                          .max_length = 8192,
                                          .tied = true,
                                          .activation_field = "hidden_activation",
                                          .activation = "gelu_pytorch_tanh",
                                          .tokens = {.bos = 2, .eos = 1, .pad = 0}};

TransformerModelOptions read_gemma2(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options =
      read_gemma(config, kind, kGemmaDefaults, [](std::int64_t layer) { return layer % 2 == 0; });
  set_rotary(config, options);
  // Missing is not null here: null switches a limit off.
  const bool language_model = kind == HeadKind::language_model;
  if (language_model && !config.has("final_logit_softcapping")) options.head.softcap = 30.0;
  for (BlockOptions& block : options.decoder.layers) {
    if (!config.has("attn_logit_softcapping")) block.softcap = 50.0;
  }
  return options;
}

TransformerModelOptions read_gemma3(const ModelConfig& config, HeadKind kind) {
  LlamaDefaults defaults = kGemmaDefaults;
  defaults.vocab_size = 262208;
  defaults.max_length = 131072;
  const std::int64_t every = config.size("sliding_window_pattern", 6);
  TransformerModelOptions options =
      read_gemma(config, kind, defaults, [&](std::int64_t layer) { return (layer + 1) % every != 0; });
  StackOptions& stack = options.decoder;
  if (stack.layers.empty()) return options;
  const std::int64_t head_dim = stack.layers.front().head_dim;
  const RotaryPositions global =
      read_rotary(config, {.base = 1e6, .head_dim = head_dim, .max_length = stack.max_positions});
  const RotaryPositions local = read_rotary(config, {.head_dim = head_dim,
                                                     .max_length = stack.max_positions,
                                                     .layer_type = "sliding_attention",
                                                     .base_field = "rope_local_base_freq",
                                                     .scaled = false});
  for (BlockOptions& block : stack.layers) {
    block.rotary = block.window.left ? local : global;
    block.query_key_norm = true;
  }
  return options;
}

// The text part of a model that also reads images.
ModelConfig gemma3_text_part(const ModelConfig& config) {
  Json text = config.nested("text_config").fields();
  text.set("model_type", "gemma3_text");
  for (const char* field : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
    if (!text.find(field) && config.find(field)) text.set(field, *config.find(field));
  }
  text.set("architectures", std::vector<Json>{"Gemma3ForCausalLM"});
  return {config.name() + ": text_config", std::move(text)};
}

}  // namespace

std::vector<Family> gemma_families() {
  Family text = llama_family("gemma3_text", "Gemma3", read_gemma3);
  Family images = text;
  images.model_type = "gemma3";
  images.prefixes = {"model.", "language_model.model.", "model.language_model.", "language_model."};
  images.ignored = {"rotary_emb.", "vision_tower.", "multi_modal_projector."};
  images.text_config = gemma3_text_part;
  return {llama_family("gemma2", "Gemma2", read_gemma2), text, images};
}

}  // namespace headway::inline v0::internal

// Llama, Mistral, Qwen 2 and 3, Phi-3.
#include "models/llama_layout.h"

namespace headway::inline v0::internal {
namespace {

TransformerModelOptions read_llama(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_llama_layout(config, kind, {.tokens = {.bos = 1, .eos = 2}});
  set_rotary(config, options);
  const bool attention_bias = config.boolean("attention_bias", false);
  const bool feed_forward_bias = config.boolean("mlp_bias", false);
  for (BlockOptions& block : options.decoder.layers) {
    block.query_bias = block.key_bias = block.value_bias = block.output_bias = attention_bias;
    block.feed_forward_bias = feed_forward_bias;
  }
  return options;
}

// sliding_window of all layers: `otherwise` where the field is missing; null is no window.
void set_windows(const ModelConfig& config, std::optional<std::int64_t> otherwise, TransformerModelOptions& options) {
  if (config.has("sliding_window") ? !config.find("sliding_window") : !otherwise) return;
  const std::int64_t length = config.size("sliding_window", otherwise.value_or(0));
  for (BlockOptions& block : options.decoder.layers) set_window(length, block);
}

TransformerModelOptions read_mistral(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_llama_layout(
      config, kind, {.hidden = 14336, .kv_heads = 8, .max_length = 131072, .tokens = {.bos = 1, .eos = 2}});
  set_rotary(config, options);
  set_windows(config, 4096, options);
  return options;
}

// Windows in the layers from max_window_layers on, or as layer_types has them.
void set_qwen_windows(const ModelConfig& config, TransformerModelOptions& options) {
  std::vector<BlockOptions>& layers = options.decoder.layers;
  const bool null_window = config.has("sliding_window") && !config.find("sliding_window");
  const bool windows = config.boolean("use_sliding_window", false) && !null_window;
  const std::int64_t first = config.size("max_window_layers", 28, 0);
  const std::vector<std::string> types = read_layer_types(
      config, static_cast<std::int64_t>(layers.size()), [&](std::int64_t layer) { return windows && layer >= first; });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (types[i] == "full_attention") continue;
    check(windows, config.name(), ": layer_types has sliding_attention, but use_sliding_window is false");
    set_window(config.size("sliding_window", 4096), layers[i]);
  }
}

TransformerModelOptions read_qwen2(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options =
      read_llama_layout(config, kind, {.vocab_size = 151936, .hidden = 22016, .kv_heads = 32, .max_length = 32768});
  set_rotary(config, options);
  set_qwen_windows(config, options);
  for (BlockOptions& block : options.decoder.layers) block.query_bias = block.key_bias = block.value_bias = true;
  return options;
}

TransformerModelOptions read_qwen3(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_llama_layout(
      config, kind, {.vocab_size = 151936, .hidden = 22016, .kv_heads = 32, .head_dim = 128, .max_length = 32768});
  set_rotary(config, options);
  set_qwen_windows(config, options);
  const bool bias = config.boolean("attention_bias", false);
  for (BlockOptions& block : options.decoder.layers) {
    block.query_bias = block.key_bias = block.value_bias = block.output_bias = bias;
    block.query_key_norm = true;
  }
  return options;
}

TransformerModelOptions read_phi3(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = read_llama_layout(config, kind,
                                                      {.vocab_size = 32064,
                                                       .width = 3072,
                                                       .hidden = 8192,
                                                       .max_length = 4096,
                                                       .norm_epsilon = 1e-5,
                                                       .tokens = {.bos = 1, .eos = 32000, .pad = 32000}});
  set_rotary(config, options);
  set_windows(config, {}, options);
  for (BlockOptions& block : options.decoder.layers) {
    block.fused_qkv = true;
    block.fused_gate_up = true;
    block.dropout = config.probability("resid_pdrop", 0.0);
  }
  return options;
}

}  // namespace

std::vector<Family> llama_families() {
  return {llama_family("llama", "Llama", read_llama), llama_family("mistral", "Mistral", read_mistral),
          llama_family("qwen2", "Qwen2", read_qwen2), llama_family("qwen3", "Qwen3", read_qwen3),
          llama_family("phi3", "Phi3", read_phi3)};
}

}  // namespace headway::inline v0::internal

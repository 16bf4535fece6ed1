#include "models/llama_layout.h"

namespace headway::inline v0::internal {
namespace {

BlockOptions llama_block(const ModelConfig& config, const LlamaDefaults& defaults) {
  BlockOptions block;
  block.width = config.size("hidden_size", defaults.width);
  block.heads = config.size("num_attention_heads", defaults.heads);
  block.kv_heads =
      config.size("num_key_value_heads",
                  config.has("num_key_value_heads") || defaults.kv_heads == 0 ? block.heads : defaults.kv_heads);
  check(block.heads % block.kv_heads == 0, config.name(), ": num_key_value_heads is ", block.kv_heads,
        ", which does not divide num_attention_heads, ", block.heads);
  const bool has_head_dim = config.find("head_dim") || defaults.head_dim > 0;
  if (!has_head_dim) config.heads("num_attention_heads", defaults.heads, block.width, "hidden_size");
  block.head_dim = config.size("head_dim", has_head_dim ? defaults.head_dim : block.width / block.heads);
  block.hidden = config.size("intermediate_size", defaults.hidden);
  block.norm = NormKind::rms;
  block.norm_bias = false;
  block.norm_epsilon = config.positive("rms_norm_eps", defaults.norm_epsilon);
  block.activation = config.activation(defaults.activation_field, defaults.activation);
  block.gated = true;
  block.query_bias = block.key_bias = block.value_bias = block.output_bias = block.feed_forward_bias = false;
  block.causal = true;
  block.attention_dropout = config.probability("attention_dropout", 0.0);
  return block;
}

}  // namespace

TransformerModelOptions read_llama_layout(const ModelConfig& config, HeadKind kind, const LlamaDefaults& defaults) {
  TransformerModelOptions options = {.kind = ModelKind::decoder};
  options.vocab_size = config.size("vocab_size", defaults.vocab_size);
  read_tokens(config, defaults.tokens, options);
  options.padding_row = options.pad_id;
  const BlockOptions block = llama_block(config, defaults);
  StackOptions& stack = options.decoder;
  stack.layers = same_layers(config.layers("num_hidden_layers", defaults.layers), block);
  stack.width = block.width;
  stack.max_positions = config.size("max_position_embeddings", defaults.max_length);
  stack.norm = block.norm;
  stack.norm_bias = false;
  stack.norm_epsilon = block.norm_epsilon;
  stack.final_norm = true;
  options.initial_values.deviation = config.positive("initializer_range", 0.02);

  HeadOptions& head = options.head;
  head.kind = kind;
  set_head_size(config, options);
  head.tied = kind == HeadKind::language_model && config.boolean("tie_word_embeddings", defaults.tied);
  head.bias = kind == HeadKind::tokens || kind == HeadKind::span;
  head.pooling = HeadOptions::Pooling::last;
  if (kind == HeadKind::tokens) {
    head.dropout = config.probability("classifier_dropout", config.probability("hidden_dropout", 0.1));
  }
  return options;
}

void set_rotary(const ModelConfig& config, TransformerModelOptions& options) {
  StackOptions& stack = options.decoder;
  if (stack.layers.empty()) return;
  const RotaryPositions rotary =
      read_rotary(config, {.head_dim = stack.layers.front().head_dim, .max_length = stack.max_positions});
  for (BlockOptions& block : stack.layers) block.rotary = rotary;
  // This scaling is made for texts beyond the limit.
  if (rotary.scaling.kind == RotaryScaling::Kind::dynamic) stack.max_positions = 0;
}

void set_window(std::int64_t length, BlockOptions& block) { block.window.left = length - 1; }

std::vector<TensorName> llama_names(const TransformerModelOptions& options) {
  const bool norms_after = !options.decoder.layers.empty() && options.decoder.layers[0].norm_place == NormPlace::both;
  std::vector<TensorName> names = {{"embedding", "embed_tokens"},
                                   {"decoder.layers.{}.attention_norm", "layers.{}.input_layernorm"},
                                   {"decoder.layers.{}.attention.query", "layers.{}.self_attn.q_proj"},
                                   {"decoder.layers.{}.attention.key", "layers.{}.self_attn.k_proj"},
                                   {"decoder.layers.{}.attention.value", "layers.{}.self_attn.v_proj"},
                                   {"decoder.layers.{}.attention.qkv", "layers.{}.self_attn.qkv_proj"},
                                   {"decoder.layers.{}.attention.output", "layers.{}.self_attn.o_proj"},
                                   {"decoder.layers.{}.attention.query_norm", "layers.{}.self_attn.q_norm"},
                                   {"decoder.layers.{}.attention.key_norm", "layers.{}.self_attn.k_norm"},
                                   {"decoder.layers.{}.feed_forward.gate", "layers.{}.mlp.gate_proj"},
                                   {"decoder.layers.{}.feed_forward.up", "layers.{}.mlp.up_proj"},
                                   {"decoder.layers.{}.feed_forward.gate_up", "layers.{}.mlp.gate_up_proj"},
                                   {"decoder.layers.{}.feed_forward.down", "layers.{}.mlp.down_proj"},
                                   {"decoder.norm", "norm"}};
  if (norms_after) {
    names.push_back({"decoder.layers.{}.attention_output_norm", "layers.{}.post_attention_layernorm"});
    names.push_back({"decoder.layers.{}.feed_forward_norm", "layers.{}.pre_feedforward_layernorm"});
    names.push_back({"decoder.layers.{}.feed_forward_output_norm", "layers.{}.post_feedforward_layernorm"});
  } else {
    names.push_back({"decoder.layers.{}.feed_forward_norm", "layers.{}.post_attention_layernorm"});
  }
  const HeadKind kind = options.head.kind;
  names.push_back({"head.output", kind == HeadKind::language_model ? "lm_head"
                                  : kind == HeadKind::span         ? "qa_outputs"
                                                                   : "score"});
  return names;
}

Family llama_family(const char* model_type, const char* class_name,
                    TransformerModelOptions (*read)(const ModelConfig&, HeadKind)) {
  return {.model_type = model_type,
          .kind = ModelKind::decoder,
          .class_name = class_name,
          .language_model = "ForCausalLM",
          .prefixes = {"model."},
          .ignored = {"rotary_emb."},
          .embedding_copies = {},
          .read = read,
          .names = llama_names};
}

}  // namespace headway::inline v0::internal

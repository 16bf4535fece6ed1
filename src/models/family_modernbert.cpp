// ModernBERT: rotary positions, gated feed-forward networks, and windows in most layers.
#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

std::vector<BlockOptions> modernbert_layers(const ModelConfig& config, std::int64_t width) {
  BlockOptions block;
  block.width = width;
  block.heads = config.heads("num_attention_heads", 12, width, "hidden_size");
  block.hidden = config.size("intermediate_size", 1152);
  block.norm_epsilon = config.positive("norm_eps", 1e-5);
  block.norm_bias = config.boolean("norm_bias", false);
  block.activation = config.activation("hidden_activation", "gelu");
  block.gated = true;
  block.fused_qkv = true;
  block.fused_gate_up = true;
  const bool attention_bias = config.boolean("attention_bias", false);
  block.query_bias = block.key_bias = block.value_bias = block.output_bias = attention_bias;
  block.feed_forward_bias = config.boolean("mlp_bias", false);
  block.attention_dropout = config.probability("attention_dropout", 0.0);
  block.activation_dropout = config.probability("mlp_dropout", 0.0);

  const std::int64_t head_dim = width / block.heads;
  const std::int64_t max_length = config.size("max_position_embeddings", 8192);
  const RotaryPositions global = read_rotary(
      config, {.base = 160000.0, .head_dim = head_dim, .max_length = max_length, .base_field = "global_rope_theta"});
  const RotaryPositions local = read_rotary(config, {.head_dim = head_dim,
                                                     .max_length = max_length,
                                                     .layer_type = "sliding_attention",
                                                     .base_field = "local_rope_theta"});
  const std::int64_t reach = config.size("local_attention", 128, 2) / 2;
  const std::int64_t every = config.size("global_attn_every_n_layers", 3);
  std::vector<BlockOptions> layers = same_layers(config.layers("num_hidden_layers", 22), block);
  const std::vector<std::string> types = read_layer_types(config, static_cast<std::int64_t>(layers.size()),
                                                          [&](std::int64_t layer) { return layer % every != 0; });
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool sliding = types[i] == "sliding_attention";
    layers[i].rotary = sliding ? local : global;
    if (sliding) layers[i].window = {.left = reach, .right = reach};
    layers[i].has_attention_norm = i > 0;
  }
  return layers;
}

void set_modernbert_head(const ModelConfig& config, HeadKind kind, TransformerModelOptions& options) {
  HeadOptions& head = options.head;
  head.kind = kind;
  set_head_size(config, options);
  if (kind == HeadKind::none) return;
  head.dense = true;
  head.dense_norm = true;
  head.dense_bias = config.boolean("classifier_bias", false);
  head.dense_activation = config.activation("classifier_activation", "gelu");
  if (kind == HeadKind::language_model) {
    head.tied = config.boolean("tie_word_embeddings", true);
    head.bias = config.boolean("decoder_bias", true);
    return;
  }
  head.dropout = config.probability("classifier_dropout", 0.0);
  const std::string pooling = config.string("classifier_pooling", "cls");
  if (pooling != "cls" && pooling != "mean") config.refuse("classifier_pooling", "\"cls\" or \"mean\"");
  head.pooling = pooling == "mean" ? HeadOptions::Pooling::mean : HeadOptions::Pooling::first;
}

TransformerModelOptions read_modernbert(const ModelConfig& config, HeadKind kind) {
  TransformerModelOptions options = {.kind = ModelKind::encoder};
  options.vocab_size = config.size("vocab_size", 50368);
  read_tokens(config, {.bos = 50281, .eos = 50282, .pad = 50283}, options);
  options.padding_row = options.pad_id;
  StackOptions& stack = options.encoder;
  stack.width = config.size("hidden_size", 768);
  stack.layers = modernbert_layers(config, stack.width);
  stack.embedding_norm = true;
  stack.embedding_dropout = config.probability("embedding_dropout", 0.0);
  stack.max_positions = config.size("max_position_embeddings", 8192);
  stack.norm_epsilon = config.positive("norm_eps", 1e-5);
  stack.norm_bias = config.boolean("norm_bias", false);
  stack.final_norm = true;
  options.initial_values = {.rule = InitialValues::Rule::modernbert,
                            .deviation = config.positive("initializer_range", 0.02),
                            .cutoff = config.positive("initializer_cutoff_factor", 2.0)};
  set_modernbert_head(config, kind, options);
  return options;
}

std::vector<TensorName> modernbert_names(const TransformerModelOptions& options) {
  const bool language_model = options.head.kind == HeadKind::language_model;
  return {{"embedding", "embeddings.tok_embeddings"},
          {"encoder.embedding_norm", "embeddings.norm"},
          {"encoder.layers.{}.attention_norm", "layers.{}.attn_norm"},
          {"encoder.layers.{}.attention.qkv", "layers.{}.attn.Wqkv"},
          {"encoder.layers.{}.attention.output", "layers.{}.attn.Wo"},
          {"encoder.layers.{}.feed_forward_norm", "layers.{}.mlp_norm"},
          {"encoder.layers.{}.feed_forward.gate_up", "layers.{}.mlp.Wi"},
          {"encoder.layers.{}.feed_forward.down", "layers.{}.mlp.Wo"},
          {"encoder.norm", "final_norm"},
          {"head.dense", "head.dense"},
          {"head.norm", "head.norm"},
          {"head.output", language_model ? "decoder" : "classifier"}};
}

}  // namespace

std::vector<Family> modernbert_families() {
  return {{.model_type = "modernbert",
           .kind = ModelKind::encoder,
           .class_name = "ModernBert",
           .language_model = "ForMaskedLM",
           .prefixes = {"model."},
           .ignored = {"rotary_emb."},
           .embedding_copies = {},
           .read = read_modernbert,
           .names = modernbert_names}};
}

}  // namespace headway::inline v0::internal

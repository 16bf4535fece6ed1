// GPT-2. Its matrices are [in, out] in the file.
#include <cmath>

#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

std::vector<BlockOptions> gpt2_layers(const ModelConfig& config, std::int64_t width) {
  BlockOptions block;
  block.width = width;
  block.heads = config.heads("n_head", 12, width, "n_embd");
  block.hidden = config.size("n_inner", 4 * width);
  block.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  block.activation = config.activation("activation_function", "gelu_new");
  block.fused_qkv = true;
  block.causal = true;
  block.dropout = config.probability("resid_pdrop", 0.1);
  block.attention_dropout = config.probability("attn_pdrop", 0.1);
  std::vector<BlockOptions> layers = same_layers(config.layers("n_layer", 12), block);

  const bool by_width = config.boolean("scale_attn_weights", true);
  const bool by_layer = config.boolean("scale_attn_by_inverse_layer_idx", false);
  for (std::size_t i = 0; i < layers.size() && (by_layer || !by_width); ++i) {
    double scale = by_width ? 1.0 / std::sqrt(static_cast<double>(width) / static_cast<double>(block.heads)) : 1.0;
    if (by_layer) scale /= static_cast<double>(i + 1);
    layers[i].scale = scale;
  }
  return layers;
}

TransformerModelOptions read_gpt2(const ModelConfig& given, HeadKind kind) {
  ModelConfig config = given;
  config.alias("n_embd", "hidden_size");
  config.alias("n_head", "num_attention_heads");
  config.alias("n_layer", "num_hidden_layers");
  config.alias("n_positions", "max_position_embeddings");
  config.require("add_cross_attention", false);
  TransformerModelOptions options = {.kind = ModelKind::decoder};
  options.vocab_size = config.size("vocab_size", 50257);
  read_tokens(config, {.bos = 50256, .eos = 50256}, options);
  StackOptions& stack = options.decoder;
  stack.width = config.size("n_embd", 768);
  stack.layers = gpt2_layers(config, stack.width);
  stack.embedding_dropout = config.probability("embd_pdrop", 0.1);
  stack.positions = PositionKind::learned;
  stack.max_positions = config.size("n_positions", 1024);
  stack.norm_epsilon = config.positive("layer_norm_epsilon", 1e-5);
  stack.final_norm = true;
  options.initial_values = {.rule = InitialValues::Rule::gpt2, .deviation = config.positive("initializer_range", 0.02)};

  HeadOptions& head = options.head;
  head.kind = kind;
  set_head_size(config, options);
  head.tied = kind == HeadKind::language_model && config.boolean("tie_word_embeddings", true);
  head.bias = kind == HeadKind::tokens || kind == HeadKind::span;
  head.pooling = HeadOptions::Pooling::last;
  if (kind == HeadKind::tokens) {
    head.dropout = config.probability("classifier_dropout", config.probability("hidden_dropout", 0.1));
  }
  return options;
}

std::vector<TensorName> gpt2_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = {
      {"embedding", "wte"},
      {"decoder.positions", "wpe"},
      {"decoder.layers.{}.attention_norm", "h.{}.ln_1"},
      {.ours = "decoder.layers.{}.attention.qkv", .theirs = "h.{}.attn.c_attn", .transposed = true},
      {.ours = "decoder.layers.{}.attention.output", .theirs = "h.{}.attn.c_proj", .transposed = true},
      {"decoder.layers.{}.feed_forward_norm", "h.{}.ln_2"},
      {.ours = "decoder.layers.{}.feed_forward.up", .theirs = "h.{}.mlp.c_fc", .transposed = true},
      {.ours = "decoder.layers.{}.feed_forward.down", .theirs = "h.{}.mlp.c_proj", .transposed = true},
      {"decoder.norm", "ln_f"}};
  switch (options.head.kind) {
    case HeadKind::language_model:
      names.push_back({"head.output", "lm_head"});
      break;
    case HeadKind::sequence:
      names.push_back({"head.output", "score"});
      break;
    case HeadKind::span:
      names.push_back({"head.output", "qa_outputs"});
      break;
    default:
      names.push_back({"head.output", "classifier"});
  }
  return names;
}

}  // namespace

std::vector<Family> gpt2_families() {
  return {{.model_type = "gpt2",
           .kind = ModelKind::decoder,
           .class_name = "GPT2",
           .language_model = "LMHeadModel",
           .prefixes = {"transformer."},
           .ignored = {".attn.bias", ".attn.masked_bias"},
           .embedding_copies = {},
           .read = read_gpt2,
           .names = gpt2_names}};
}

}  // namespace headway::inline v0::internal

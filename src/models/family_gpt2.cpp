// GPT-2, alone and as the decoder of an encoder-decoder. Its matrices are [in, out] in the file.
#include <cmath>

#include "models/gpt2_layout.h"

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
  block.cross_attention = config.boolean("add_cross_attention", false);
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

ModelConfig with_aliases(const ModelConfig& given) {
  ModelConfig config = given;
  config.alias("n_embd", "hidden_size");
  config.alias("n_head", "num_attention_heads");
  config.alias("n_layer", "num_hidden_layers");
  config.alias("n_positions", "max_position_embeddings");
  return config;
}

}  // namespace

void read_gpt2_decoder(const ModelConfig& given, TransformerModelOptions& options) {
  const ModelConfig config = with_aliases(given);
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
}

namespace {

TransformerModelOptions read_gpt2(const ModelConfig& given, HeadKind kind) {
  const ModelConfig config = with_aliases(given);
  config.require("add_cross_attention", false);
  TransformerModelOptions options = {.kind = ModelKind::decoder};
  read_gpt2_decoder(given, options);
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

}  // namespace

std::vector<TensorName> gpt2_decoder_names(const std::string& prefix) {
  const std::string ours = "decoder.layers.{}.", theirs = prefix + "h.{}.";
  const auto matrix = [&](const char* our, const char* their) {
    return TensorName{.ours = ours + our, .theirs = theirs + their, .transposed = true};
  };
  std::vector<TensorName> names = {{"embedding", prefix + "wte"},
                                   {"decoder.positions", prefix + "wpe"},
                                   {ours + "attention_norm", theirs + "ln_1"},
                                   matrix("attention.qkv", "attn.c_attn"),
                                   matrix("attention.output", "attn.c_proj"),
                                   {ours + "cross_norm", theirs + "ln_cross_attn"},
                                   matrix("cross.query", "crossattention.q_attn"),
                                   matrix("cross.key", "crossattention.c_attn"),
                                   matrix("cross.value", "crossattention.c_attn"),
                                   matrix("cross.output", "crossattention.c_proj"),
                                   {ours + "feed_forward_norm", theirs + "ln_2"},
                                   matrix("feed_forward.up", "mlp.c_fc"),
                                   matrix("feed_forward.down", "mlp.c_proj"),
                                   {"decoder.norm", prefix + "ln_f"}};
  // Keys and values are one product in the file.
  for (TensorName& name : names) {
    if (!name.ours.ends_with("cross.key") && !name.ours.ends_with("cross.value")) continue;
    name.parts = 2;
    name.part = name.ours.ends_with("value") ? 1 : 0;
  }
  return names;
}

namespace {

std::vector<TensorName> gpt2_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = gpt2_decoder_names("");
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

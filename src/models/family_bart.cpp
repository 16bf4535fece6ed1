// BART, mBART, Pegasus and Marian, which differ in where their norms are and in their positions.
#include <cmath>

#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

// In what the families differ.
struct BartLayout {
  NormPlace norm_place = NormPlace::after;
  bool embedding_norm = true;
  bool final_norm = false;
  PositionKind positions = PositionKind::learned;
  std::int64_t vocab_size = 50265;
  TokenDefaults tokens = {.bos = 0, .eos = 2, .pad = 1};
  std::optional<std::int64_t> decoder_start = {};
};

// The encoder or the decoder; `side` begins the names of its fields.
StackOptions bart_stack(const ModelConfig& config, const BartLayout& layout, const std::string& side) {
  const auto field = [&](const char* rest) { return side + rest; };
  BlockOptions block;
  block.width = config.size("d_model", 1024);
  block.heads = config.heads(field("_attention_heads").c_str(), 16, block.width, "d_model");
  block.hidden = config.size(field("_ffn_dim").c_str(), 4096);
  block.norm_place = layout.norm_place;
  block.activation = config.activation("activation_function", "gelu");
  block.dropout = config.probability("dropout", 0.1);
  block.attention_dropout = config.probability("attention_dropout", 0.0);
  block.activation_dropout = config.probability("activation_dropout", 0.0);
  block.causal = side == "decoder";
  block.cross_attention = side == "decoder";

  StackOptions stack;
  stack.layers = same_layers(config.layers(field("_layers").c_str(), 12), block);
  stack.width = block.width;
  if (config.boolean("scale_embedding", false)) stack.embedding_scale = std::sqrt(static_cast<double>(block.width));
  stack.embedding_norm = layout.embedding_norm;
  stack.embedding_dropout = block.dropout;
  stack.positions = layout.positions;
  stack.max_positions = config.size("max_position_embeddings", 1024);
  stack.position_offset = layout.positions == PositionKind::learned ? 2 : 0;
  stack.final_norm = layout.final_norm;
  return stack;
}

TransformerModelOptions read_bart_layout(const ModelConfig& config, HeadKind kind, const BartLayout& layout) {
  config.require("is_encoder_decoder", true);
  config.require("tie_word_embeddings", true);
  TransformerModelOptions options = {.kind = ModelKind::encoder_decoder};
  options.vocab_size = config.size("vocab_size", layout.vocab_size);
  read_tokens(config, layout.tokens, options);
  options.padding_row = options.pad_id;
  options.decoder_start_id = config.token("decoder_start_token_id", layout.decoder_start, options.vocab_size);
  options.encoder = bart_stack(config, layout, "encoder");
  options.decoder = bart_stack(config, layout, "decoder");
  options.initial_values.deviation = config.positive("init_std", 0.02);
  check(layout.positions == PositionKind::learned || options.encoder.width % 2 == 0, config.name(), ": d_model is ",
        options.encoder.width, ", expected an even number");
  options.head.kind = kind;
  options.head.tied = kind == HeadKind::language_model;
  options.head.trained_bias = false;
  set_head_size(config, options);
  return options;
}

TransformerModelOptions read_bart(const ModelConfig& config, HeadKind kind) {
  return read_bart_layout(config, kind, {.decoder_start = 2});
}
TransformerModelOptions read_mbart(const ModelConfig& config, HeadKind kind) {
  return read_bart_layout(config, kind, {.norm_place = NormPlace::before, .final_norm = true});
}
TransformerModelOptions read_pegasus(const ModelConfig& config, HeadKind kind) {
  return read_bart_layout(config, kind,
                          {.norm_place = NormPlace::before,
                           .embedding_norm = false,
                           .final_norm = true,
                           .positions = PositionKind::sinusoidal,
                           .tokens = {.eos = 1, .pad = 0},
                           .decoder_start = 0});
}
TransformerModelOptions read_marian(const ModelConfig& config, HeadKind kind) {
  config.require("share_encoder_decoder_embeddings", true);
  config.require("static_position_embeddings", true);
  config.require("normalize_before", false);
  config.require("normalize_embedding", false);
  config.require("add_final_layer_norm", false);
  config.require("add_bias_logits", false);
  TransformerModelOptions options = read_bart_layout(config, kind,
                                                     {.embedding_norm = false,
                                                      .positions = PositionKind::sinusoidal,
                                                      .vocab_size = 58101,
                                                      .tokens = {.eos = 0, .pad = 58100},
                                                      .decoder_start = 58100});
  const std::int64_t decoder_vocab = config.integer("decoder_vocab_size", options.vocab_size);
  check(decoder_vocab == options.vocab_size, config.name(), ": decoder_vocab_size is ", decoder_vocab,
        ", expected vocab_size, ", options.vocab_size);
  // One product instead of three, which trains faster.
  for (BlockOptions& block : options.encoder.layers) block.fused_qkv = true;
  for (BlockOptions& block : options.decoder.layers) block.fused_qkv = true;
  return options;
}

// The blocks of one stack.
void add_bart_blocks(const std::string& stack, std::vector<TensorName>& names) {
  const std::string layer = stack + ".layers.{}.";
  const std::string self = layer + "self_attn.";
  const auto add = [&](const std::string& ours, const std::string& theirs) { names.push_back({layer + ours, theirs}); };
  for (const char* what : {"weight", "bias"}) {
    add(std::string("attention.qkv.") + what,
        self + "q_proj." + what + "|" + self + "k_proj." + what + "|" + self + "v_proj." + what);
  }
  const auto attention = [&](const std::string& ours, const std::string& theirs) {
    add(ours + ".query", layer + theirs + ".q_proj");
    add(ours + ".key", layer + theirs + ".k_proj");
    add(ours + ".value", layer + theirs + ".v_proj");
    add(ours + ".output", layer + theirs + ".out_proj");
    add(ours + "_norm", layer + theirs + "_layer_norm");
  };
  attention("attention", "self_attn");
  attention("cross", "encoder_attn");
  add("feed_forward.up", layer + "fc1");
  add("feed_forward.down", layer + "fc2");
  add("feed_forward_norm", layer + "final_layer_norm");
}

std::vector<TensorName> bart_names(const TransformerModelOptions&) {
  std::vector<TensorName> names = {
      {"embedding", "shared"}, {"head.output.weight", "lm_head.weight"}, {"head.output.bias", "final_logits_bias"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    names.push_back({stack + ".positions", stack + ".embed_positions"});
    names.push_back({stack + ".embedding_norm", stack + ".layernorm_embedding"});
    names.push_back({stack + ".norm", stack + ".layer_norm"});
    add_bart_blocks(stack, names);
  }
  return names;
}

Family bart_family(const char* model_type, const char* class_name, const char* language_model,
                   TransformerModelOptions (*read)(const ModelConfig&, HeadKind)) {
  return {.model_type = model_type,
          .kind = ModelKind::encoder_decoder,
          .class_name = class_name,
          .language_model = language_model,
          .prefixes = {"model."},
          .ignored = {"encoder.version", "decoder.version"},
          .embedding_copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
          .read = read,
          .names = bart_names};
}

}  // namespace

std::vector<Family> bart_families() {
  Family pegasus = bart_family("pegasus", "Pegasus", "ForConditionalGeneration", read_pegasus);
  pegasus.writes_positions = true;
  return {bart_family("bart", "Bart", "ForConditionalGeneration", read_bart),
          bart_family("mbart", "MBart", "ForConditionalGeneration", read_mbart), pegasus,
          bart_family("marian", "Marian", "MTModel", read_marian)};
}

}  // namespace headway::inline v0::internal

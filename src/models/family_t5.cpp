// T5, Flan-T5 and mT5: relative positions as a bias of the scores, RMS norms, no biases.
#include <cmath>

#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

struct T5Defaults {
  std::int64_t vocab_size = 32128;
  std::int64_t hidden = 2048;
  std::int64_t layers = 6;
  std::int64_t heads = 8;
  const char* feed_forward = "relu";
  bool scaled = true;  // hidden states before a tied output
};

// feed_forward_proj: an activation's name, after "gated-" for a gated one.
void set_t5_feed_forward(const ModelConfig& config, const char* otherwise, BlockOptions& block) {
  const std::string text = config.string("feed_forward_proj", otherwise);
  constexpr std::string_view kGated = "gated-";
  block.gated = text.starts_with(kGated);
  const std::string name = block.gated ? text.substr(kGated.size()) : text;
  // By its name it would be the one with the error function.
  const std::optional<Activation> activation = text == "gated-gelu" ? Activation::gelu_tanh : activation_of(name);
  if (!activation) config.refuse("feed_forward_proj", "one of " + activation_names() + ", or gated- and one of them");
  block.activation = *activation;
}

StackOptions t5_stack(const ModelConfig& config, std::int64_t layers, const BlockOptions& block) {
  StackOptions stack;
  stack.layers = same_layers(layers, block);
  stack.width = block.width;
  stack.embedding_dropout = block.dropout;
  stack.positions = PositionKind::relative_bias;
  stack.relative_buckets = config.size("relative_attention_num_buckets", 32, 4);
  stack.relative_max_distance = config.size("relative_attention_max_distance", 128);
  stack.norm = NormKind::rms;
  stack.norm_bias = false;
  stack.norm_epsilon = block.norm_epsilon;
  stack.final_norm = true;
  stack.final_dropout = block.dropout;
  return stack;
}

TransformerModelOptions read_t5_with(const ModelConfig& given, HeadKind kind, const T5Defaults& defaults) {
  ModelConfig config = given;
  config.alias("num_layers", "num_hidden_layers");
  config.alias("num_heads", "num_attention_heads");
  config.require("is_encoder_decoder", true);
  BlockOptions block;
  block.width = config.size("d_model", 512);
  block.heads = config.size("num_heads", defaults.heads);
  block.head_dim = config.size("d_kv", 64);
  block.hidden = config.size("d_ff", defaults.hidden);
  block.norm = NormKind::rms;
  block.norm_bias = false;
  block.norm_epsilon = config.positive("layer_norm_epsilon", 1e-6);
  set_t5_feed_forward(config, defaults.feed_forward, block);
  block.query_bias = block.key_bias = block.value_bias = block.output_bias = block.feed_forward_bias = false;
  block.scale = 1.0;
  block.dropout = block.attention_dropout = block.activation_dropout = config.probability("dropout_rate", 0.1);

  TransformerModelOptions options = {.kind = ModelKind::encoder_decoder};
  options.vocab_size = config.size("vocab_size", defaults.vocab_size);
  read_tokens(config, {.eos = 1, .pad = 0}, options);
  options.decoder_start_id = config.token("decoder_start_token_id", options.pad_id, options.vocab_size);
  const std::int64_t layers = config.layers("num_layers", defaults.layers);
  options.encoder = t5_stack(config, layers, block);
  block.causal = true;
  block.cross_attention = true;
  options.decoder = t5_stack(config, config.layers("num_decoder_layers", layers), block);
  options.initial_values = {.rule = InitialValues::Rule::t5, .deviation = config.positive("initializer_factor", 1.0)};

  HeadOptions& head = options.head;
  head.kind = kind;
  head.bias = false;
  head.tied = kind == HeadKind::language_model && config.boolean("tie_word_embeddings", true);
  // A file whose output is not tied may say so by either field.
  const bool scaled = config.boolean("scale_decoder_outputs", config.boolean("tie_word_embeddings", true));
  if (scaled && defaults.scaled) head.logit_scale = 1.0 / std::sqrt(static_cast<double>(block.width));
  set_head_size(config, options);
  return options;
}

TransformerModelOptions read_t5(const ModelConfig& config, HeadKind kind) { return read_t5_with(config, kind, {}); }
TransformerModelOptions read_mt5(const ModelConfig& config, HeadKind kind) {
  return read_t5_with(
      config, kind,
      {.vocab_size = 250112, .hidden = 1024, .layers = 8, .heads = 6, .feed_forward = "gated-gelu", .scaled = false});
}

void add_t5_attention(const std::string& ours, const std::string& theirs, std::vector<TensorName>& names) {
  names.push_back({ours + ".query", theirs + ".q"});
  names.push_back({ours + ".key", theirs + ".k"});
  names.push_back({ours + ".value", theirs + ".v"});
  names.push_back({ours + ".output", theirs + ".o"});
}

std::vector<TensorName> t5_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = {{"embedding", "shared"}, {"head.output", "lm_head"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const bool decoder = stack == "decoder";
    const std::string ours = stack + ".layers.{}.";
    const std::string block = stack + ".block.{}.layer.";
    const std::string last = block + (decoder ? "2" : "1");
    const std::vector<BlockOptions>& layers = decoder ? options.decoder.layers : options.encoder.layers;
    const bool gated = !layers.empty() && layers.front().gated;
    names.push_back({stack + ".relative_bias", stack + ".block.0.layer.0.SelfAttention.relative_attention_bias"});
    names.push_back({stack + ".norm", stack + ".final_layer_norm"});
    add_t5_attention(ours + "attention", block + "0.SelfAttention", names);
    names.push_back({ours + "attention_norm", block + "0.layer_norm"});
    add_t5_attention(ours + "cross", block + "1.EncDecAttention", names);
    names.push_back({ours + "cross_norm", block + "1.layer_norm"});
    names.push_back({ours + "feed_forward.gate", last + ".DenseReluDense.wi_0"});
    names.push_back({ours + "feed_forward.up", last + (gated ? ".DenseReluDense.wi_1" : ".DenseReluDense.wi")});
    names.push_back({ours + "feed_forward.down", last + ".DenseReluDense.wo"});
    names.push_back({ours + "feed_forward_norm", last + ".layer_norm"});
  }
  return names;
}

Family t5_family(const char* model_type, const char* class_name,
                 TransformerModelOptions (*read)(const ModelConfig&, HeadKind)) {
  return {.model_type = model_type,
          .kind = ModelKind::encoder_decoder,
          .class_name = class_name,
          .language_model = "ForConditionalGeneration",
          .prefixes = {"", "transformer."},
          .ignored = {"EncDecAttention.relative_attention_bias"},
          .embedding_copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"},
          .read = read,
          .names = t5_names};
}

}  // namespace

std::vector<Family> t5_families() { return {t5_family("t5", "T5", read_t5), t5_family("mt5", "MT5", read_mt5)}; }

}  // namespace headway::inline v0::internal

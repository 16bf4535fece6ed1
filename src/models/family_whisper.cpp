// Whisper: an encoder of sound and a decoder of text.
#include "models/family_options.h"

namespace headway::inline v0::internal {
namespace {

// The encoder or the decoder; `side` begins the names of its fields.
StackOptions whisper_stack(const ModelConfig& config, const std::string& side, std::int64_t max_positions) {
  const auto field = [&](const char* rest) { return side + rest; };
  BlockOptions block;
  block.width = config.size("d_model", 384);
  block.heads = config.heads(field("_attention_heads").c_str(), 6, block.width, "d_model");
  block.hidden = config.size(field("_ffn_dim").c_str(), 1536);
  block.activation = config.activation("activation_function", "gelu");
  block.key_bias = false;
  block.dropout = config.probability("dropout", 0.0);
  block.attention_dropout = config.probability("attention_dropout", 0.0);
  block.activation_dropout = config.probability("activation_dropout", 0.0);
  block.causal = side == "decoder";
  block.cross_attention = side == "decoder";

  StackOptions stack;
  stack.layers = same_layers(config.layers(field("_layers").c_str(), 4), block);
  stack.width = block.width;
  stack.embedding_dropout = block.dropout;
  stack.positions = PositionKind::learned;
  stack.max_positions = max_positions;
  stack.final_norm = true;
  return stack;
}

TransformerModelOptions read_whisper(const ModelConfig& config, HeadKind kind) {
  config.require("is_encoder_decoder", true);
  TransformerModelOptions options = {.kind = ModelKind::encoder_decoder};
  options.vocab_size = config.size("vocab_size", 51865);
  read_tokens(config, {.bos = 50256, .eos = 50256, .pad = 50256}, options);
  options.padding_row = options.pad_id;
  options.decoder_start_id = config.token("decoder_start_token_id", 50257, options.vocab_size);
  options.encoder = whisper_stack(config, "encoder", config.size("max_source_positions", 1500));
  options.encoder.front = {.kind = FrontKind::sound, .bins = config.size("num_mel_bins", 80, 1, 1 << 16)};
  options.encoder.positions = PositionKind::sinusoidal;
  options.encoder.sinusoid = Sinusoid::whisper;
  check(options.encoder.width >= 4 && options.encoder.width % 2 == 0, config.name(), ": d_model is ",
        options.encoder.width, ", expected an even number from 4 on");
  // scale_embedding is in every config, and no version of Transformers multiplies by it.
  options.decoder = whisper_stack(config, "decoder", config.size("max_target_positions", 448));
  options.initial_values.deviation = config.positive("init_std", 0.02);
  options.head.kind = kind;
  options.head.tied = kind == HeadKind::language_model && config.boolean("tie_word_embeddings", true);
  options.head.bias = false;
  set_head_size(config, options);
  return options;
}

std::vector<TensorName> whisper_names(const TransformerModelOptions&) {
  std::vector<TensorName> names = {{"embedding", "decoder.embed_tokens"},
                                   {"encoder.front.conv1", "encoder.conv1"},
                                   {"encoder.front.conv2", "encoder.conv2"},
                                   {"decoder.positions", "decoder.embed_positions"},
                                   {"head.output", "proj_out"}};
  for (const std::string stack : {"encoder", "decoder"}) {
    const std::string layer = stack + ".layers.{}.";
    names.push_back({stack + ".norm", stack + ".layer_norm"});
    for (const auto& [ours, theirs] :
         {std::pair<std::string, std::string>{"attention", "self_attn"}, {"cross", "encoder_attn"}}) {
      for (const auto& [our, their] : {std::pair{".query", ".q_proj"},
                                       {".key", ".k_proj"},
                                       {".value", ".v_proj"},
                                       {".output", ".out_proj"},
                                       {"_norm", "_layer_norm"}}) {
        names.push_back({layer + ours + our, layer + theirs + their});
      }
    }
    names.push_back({layer + "feed_forward.up", layer + "fc1"});
    names.push_back({layer + "feed_forward.down", layer + "fc2"});
    names.push_back({layer + "feed_forward_norm", layer + "final_layer_norm"});
  }
  return names;
}

}  // namespace

std::vector<Family> whisper_families() {
  return {{.model_type = "whisper",
           .kind = ModelKind::encoder_decoder,
           .class_name = "Whisper",
           .language_model = "ForConditionalGeneration",
           .prefixes = {"model."},
           .ignored = {},
           .embedding_copies = {},
           .read = read_whisper,
           .names = whisper_names,
           .writes_positions = true}};
}

}  // namespace headway::inline v0::internal

// Vision-encoder-decoder: ViT as the encoder, GPT-2 with cross-attention as the decoder.
#include "models/gpt2_layout.h"
#include "models/vit_layout.h"

namespace headway::inline v0::internal {
namespace {

// One of the two configs inside.
ModelConfig part_of(const ModelConfig& config, const char* field, const std::string& model_type) {
  const ModelConfig part = config.nested(field);
  if (part.string("model_type", "") != model_type) part.refuse("model_type", '"' + model_type + '"');
  return part;
}

// The ids that the config itself has, and else those of the decoder's, as Transformers reads them.
void read_outer_tokens(const ModelConfig& config, TransformerModelOptions& options) {
  const std::int64_t count = options.vocab_size;
  if (config.find("bos_token_id")) options.bos_id = config.token("bos_token_id", {}, count);
  if (config.find("eos_token_id")) options.eos_ids = config.tokens("eos_token_id", {}, count);
  if (config.find("pad_token_id")) options.pad_id = config.token("pad_token_id", {}, count);
  options.decoder_start_id = config.token("decoder_start_token_id", {}, count);
}

TransformerModelOptions read_vision_encoder_decoder(const ModelConfig& config, HeadKind kind) {
  if (kind != HeadKind::language_model) config.refuse("architectures", "VisionEncoderDecoderModel");
  config.require("is_encoder_decoder", true);
  const ModelConfig encoder = part_of(config, "encoder", "vit"), decoder = part_of(config, "decoder", "gpt2");
  if (!decoder.boolean("add_cross_attention", false)) decoder.refuse("add_cross_attention", "true");
  TransformerModelOptions options = {.kind = ModelKind::encoder_decoder};
  options.encoder = read_vit_encoder(encoder);
  options.encoder_initial_values = {.deviation = encoder.positive("initializer_range", 0.02)};
  read_gpt2_decoder(decoder, options);
  read_outer_tokens(config, options);
  options.memory_projection = options.encoder.width != options.decoder.width;
  if (options.memory_projection && decoder.find("cross_attention_hidden_size")) {
    decoder.refuse("cross_attention_hidden_size", "null, since GPT-2 reads rows of its own width");
  }
  options.head.kind = kind;
  options.head.tied = decoder.boolean("tie_word_embeddings", true);
  options.head.bias = false;
  set_head_size(config, options);
  return options;
}

std::vector<TensorName> vision_encoder_decoder_names(const TransformerModelOptions& options) {
  std::vector<TensorName> names = vit_encoder_names(options.encoder, "encoder.");
  for (TensorName& name : gpt2_decoder_names("decoder.transformer.")) names.push_back(std::move(name));
  names.push_back({"memory_projection", "enc_to_dec_proj"});
  names.push_back({"head.output", "decoder.lm_head"});
  return names;
}

}  // namespace

std::vector<Family> vision_encoder_decoder_families() {
  return {{.model_type = "vision-encoder-decoder",
           .kind = ModelKind::encoder_decoder,
           .class_name = "VisionEncoderDecoder",
           .language_model = "Model",
           .prefixes = {""},
           .ignored = {".attn.bias", ".attn.masked_bias", ".crossattention.bias", ".crossattention.masked_bias",
                       "embeddings.mask_token"},
           .embedding_copies = {},
           .read = read_vision_encoder_decoder,
           .names = vision_encoder_decoder_names}};
}

}  // namespace headway::inline v0::internal

#include "models/marian_config.h"

#include <vector>

#include "base/check.h"
#include "models/model_checks.h"
#include "models/model_config.h"

namespace headway::inline v0::internal {
namespace {

void check_marian_kind(const ModelConfig& config) {
  const Json* type = config.find("model_type");
  if (type == nullptr || !type->is_string() || type->string() != "marian") config.refuse("model_type", "\"marian\"");
  config.require("is_encoder_decoder", true);
  config.require("share_encoder_decoder_embeddings", true);
  config.require("tie_word_embeddings", true);
  config.require("static_position_embeddings", true);
  config.require("normalize_before", false);
  config.require("normalize_embedding", false);
  config.require("add_final_layer_norm", false);
  config.require("add_bias_logits", false);
}

}  // namespace

TranslationModelOptions read_marian_config(const std::filesystem::path& file) {
  const ModelConfig config = ModelConfig::read(file);
  check_marian_kind(config);
  TranslationModelOptions options;
  options.vocab_size = config.integer("vocab_size");
  const std::int64_t decoder_vocab = config.integer("decoder_vocab_size", options.vocab_size);
  check(decoder_vocab == options.vocab_size, config.name(), ": decoder_vocab_size is ", decoder_vocab,
        ", expected vocab_size, ", options.vocab_size);
  options.d_model = config.integer("d_model");
  options.encoder_layers = config.integer("encoder_layers");
  options.decoder_layers = config.integer("decoder_layers");
  options.encoder_attention_heads = config.integer("encoder_attention_heads");
  options.decoder_attention_heads = config.integer("decoder_attention_heads");
  options.encoder_ffn_dim = config.integer("encoder_ffn_dim");
  options.decoder_ffn_dim = config.integer("decoder_ffn_dim");
  options.dropout = config.number("dropout", 0.1);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  options.activation_dropout = config.number("activation_dropout", 0.0);
  options.activation = config.activation("activation_function", "gelu");
  options.max_position_embeddings = config.integer("max_position_embeddings", 1024);
  options.scale_embedding = config.boolean("scale_embedding", false);
  options.eos_token_id = config.integer("eos_token_id", 0);
  options.pad_token_id = config.integer("pad_token_id");
  options.decoder_start_token_id = config.integer("decoder_start_token_id", options.pad_token_id);
  check_model_options(config.name(), options);
  return options;
}

Json marian_config(const TranslationModelOptions& options) {
  return {{"architectures", std::vector<Json>{"MarianMTModel"}},
          {"model_type", "marian"},
          {"dtype", "float32"},
          {"vocab_size", options.vocab_size},
          {"decoder_vocab_size", options.vocab_size},
          {"d_model", options.d_model},
          {"encoder_layers", options.encoder_layers},
          {"decoder_layers", options.decoder_layers},
          {"num_hidden_layers", options.encoder_layers},
          {"encoder_attention_heads", options.encoder_attention_heads},
          {"decoder_attention_heads", options.decoder_attention_heads},
          {"encoder_ffn_dim", options.encoder_ffn_dim},
          {"decoder_ffn_dim", options.decoder_ffn_dim},
          {"encoder_layerdrop", 0.0},
          {"decoder_layerdrop", 0.0},
          {"dropout", options.dropout},
          {"attention_dropout", options.attention_dropout},
          {"activation_dropout", options.activation_dropout},
          {"activation_function", activation_name(options.activation)},
          {"max_position_embeddings", options.max_position_embeddings},
          {"scale_embedding", options.scale_embedding},
          {"share_encoder_decoder_embeddings", true},
          {"tie_word_embeddings", true},
          {"static_position_embeddings", true},
          {"normalize_before", false},
          {"normalize_embedding", false},
          {"add_final_layer_norm", false},
          {"is_encoder_decoder", true},
          {"use_cache", true},
          {"init_std", 0.02},
          {"bos_token_id", nullptr},
          {"eos_token_id", options.eos_token_id},
          {"pad_token_id", options.pad_token_id},
          {"decoder_start_token_id", options.decoder_start_token_id},
          {"forced_eos_token_id", nullptr}};
}

Json marian_generation_config(const TranslationModelOptions& options) {
  const std::vector<Json> pad = {options.pad_token_id};
  return {{"bad_words_ids", std::vector<Json>{pad}},
          {"bos_token_id", nullptr},
          {"decoder_start_token_id", options.decoder_start_token_id},
          {"eos_token_id", options.eos_token_id},
          {"forced_eos_token_id", nullptr},
          {"max_length", options.max_position_embeddings},
          {"num_beams", 4},
          {"pad_token_id", options.pad_token_id}};
}

}  // namespace headway::inline v0::internal

#include "models/marian_config.h"

#include <array>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/utf8.h"
#include "models/model_checks.h"

namespace headway::inline v0::internal {
namespace {

// The first name of an activation is the one that is written.
constexpr std::array<std::pair<const char*, Activation>, 7> kMarianActivations = {{
    {"relu", Activation::relu},
    {"gelu", Activation::gelu},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"gelu_new", Activation::gelu_tanh},
    {"tanh", Activation::tanh},
    {"sigmoid", Activation::sigmoid},
}};

// One config.json, with messages that name it.
class Config {
 public:
  explicit Config(const std::filesystem::path& file) : name_(file.string()), fields_(read_json(file)) {
    check(fields_.is_object(), name_, ": is not a JSON object");
  }

  // A field, or null where it is missing or null.
  const Json* find(const char* field) const {
    const Json* found = fields_.find(field);
    return found == nullptr || found->is_null() ? nullptr : found;
  }

  std::int64_t integer(const char* field) const {
    const Json* value = find(field);
    check(value != nullptr, name_, ": ", field, " is not there");
    return integer_of(field, *value);
  }
  std::int64_t integer(const char* field, std::int64_t otherwise) const {
    const Json* value = find(field);
    return value ? integer_of(field, *value) : otherwise;
  }
  double number(const char* field, double otherwise) const {
    const Json* value = find(field);
    if (!value) return otherwise;
    check(value->is_number(), name_, ": ", field, " is ", shown(*value), ", expected a number");
    return value->number();
  }
  bool boolean(const char* field, bool otherwise) const {
    const Json* value = find(field);
    if (!value) return otherwise;
    check(value->is_boolean(), name_, ": ", field, " is ", shown(*value), ", expected true or false");
    return value->boolean();
  }

  // Refuses a model of another kind.
  void require(const char* field, bool expected) const {
    const bool value = boolean(field, expected);
    check(value == expected, name_, ": ", field, " is ", value, ", and only ", expected, " is supported");
  }

  Activation activation() const {
    const Json* value = find("activation_function");
    if (!value) return Activation::gelu;  // MarianConfig's default
    std::string names;
    for (const auto& [name, activation] : kMarianActivations) {
      if (value->is_string() && value->string() == name) return activation;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    fail(name_, ": activation_function is ", shown(*value), ", expected one of ", names);
  }

  static std::string shown(const Json& value) {
    constexpr std::size_t kMost = 60;
    return shortened(value.text(), kMost);
  }
  const std::string& name() const { return name_; }

 private:
  std::int64_t integer_of(const char* field, const Json& value) const {
    check(value.is_int64(), name_, ": ", field, " is ", shown(value), ", expected an integer");
    return value.int64();
  }

  std::string name_;
  Json fields_;
};

void check_kind(const Config& config) {
  const Json* type = config.find("model_type");
  check(type != nullptr && type->is_string() && type->string() == "marian", config.name(), ": model_type is ",
        type ? Config::shown(*type) : std::string("not there"), ", expected \"marian\"");
  config.require("is_encoder_decoder", true);
  config.require("share_encoder_decoder_embeddings", true);
  config.require("tie_word_embeddings", true);
  config.require("static_position_embeddings", true);
  config.require("normalize_before", false);
  config.require("normalize_embedding", false);
  config.require("add_final_layer_norm", false);
  config.require("add_bias_logits", false);
}

void write_json(const std::filesystem::path& file, const Json& json) { replace_file(file, json.text(2) + "\n"); }

}  // namespace

TranslationModelOptions read_marian_config(const std::filesystem::path& file) {
  const Config config(file);
  check_kind(config);
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
  options.activation = config.activation();
  options.max_position_embeddings = config.integer("max_position_embeddings", 1024);
  options.scale_embedding = config.boolean("scale_embedding", false);
  options.eos_token_id = config.integer("eos_token_id", 0);
  options.pad_token_id = config.integer("pad_token_id");
  options.decoder_start_token_id = config.integer("decoder_start_token_id", options.pad_token_id);
  check_model_options(config.name(), options);
  return options;
}

void write_marian_config(const std::filesystem::path& file, const TranslationModelOptions& options) {
  const char* activation = nullptr;
  for (const auto& [name, value] : kMarianActivations) {
    if (value == options.activation && !activation) activation = name;
  }
  check(activation != nullptr, "the activation has no name in a config.json");
  // "dtype" is what to compute in, whatever the tensors of the file are.
  const Json json = {{"architectures", std::vector<Json>{"MarianMTModel"}},
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
                     {"activation_function", activation},
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
  write_json(file, json);
}

void write_generation_config(const std::filesystem::path& file, const TranslationModelOptions& options) {
  const std::vector<Json> pad = {options.pad_token_id};
  const Json json = {{"bad_words_ids", std::vector<Json>{pad}},
                     {"bos_token_id", nullptr},
                     {"decoder_start_token_id", options.decoder_start_token_id},
                     {"eos_token_id", options.eos_token_id},
                     {"forced_eos_token_id", nullptr},
                     {"max_length", options.max_position_embeddings},
                     {"num_beams", 4},
                     {"pad_token_id", options.pad_token_id}};
  write_json(file, json);
}

}  // namespace headway::inline v0::internal

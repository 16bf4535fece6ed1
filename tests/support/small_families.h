// A small config.json of every family, and inputs for it.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "headway/transformer_model.h"
#include "support/small_translation_model.h"

namespace headway_test {

struct SmallFamily {
  std::string name;          // model_type
  std::string class_name;    // "Bert"
  std::string architecture;  // with a language model's head
  nlohmann::json fields;

  // The text of a config.json with this architecture and more fields.
  std::string config(const std::string& class_of_model, const nlohmann::json& more = nlohmann::json::object()) const {
    nlohmann::json json = fields;
    json["model_type"] = name;
    json["architectures"] = {class_of_model};
    json.update(more);
    return json.dump();
  }
  std::string config() const { return config(architecture); }
  bool is_encoder() const { return architecture.ends_with("MaskedLM"); }
  bool is_encoder_decoder() const { return fields.contains("decoder_layers") || fields.contains("d_kv"); }
};

inline std::vector<SmallFamily> small_families() {
  using Json = nlohmann::json;
  const Json ids = {{"vocab_size", 30}, {"pad_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}};
  const auto with = [&](Json fields) {
    for (const auto& [name, value] : ids.items()) fields.emplace(name, value);
    return fields;
  };
  const Json bert = with({{"hidden_size", 12},
                          {"num_hidden_layers", 2},
                          {"num_attention_heads", 3},
                          {"intermediate_size", 20},
                          {"max_position_embeddings", 24}});
  Json llama = bert;
  llama.update({{"num_attention_heads", 4}, {"num_key_value_heads", 2}, {"head_dim", 6}});
  Json rope = llama;
  rope["rope_theta"] = 500.0;
  rope["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 4.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 12}};
  Json gemma = llama;
  gemma.update({{"query_pre_attn_scalar", 8}, {"sliding_window", 3}, {"sliding_window_pattern", 2}});
  Json phi = llama;
  phi.erase("head_dim");
  phi["hidden_size"] = 16;
  Json modern = bert;
  modern.update({{"num_hidden_layers", 3}, {"local_attention", 4}, {"hidden_size", 12}});
  const Json bart = with({{"d_model", 12},
                          {"encoder_layers", 2},
                          {"decoder_layers", 1},
                          {"encoder_attention_heads", 2},
                          {"decoder_attention_heads", 3},
                          {"encoder_ffn_dim", 10},
                          {"decoder_ffn_dim", 14},
                          {"max_position_embeddings", 24},
                          {"decoder_start_token_id", 2},
                          {"scale_embedding", true}});
  const Json t5 = with({{"d_model", 12}, {"d_kv", 5}, {"d_ff", 20}, {"num_layers", 2}, {"num_heads", 3}});
  Json flan = t5;
  flan.update({{"feed_forward_proj", "gated-gelu"}, {"tie_word_embeddings", false}});
  return {
      {"bert", "Bert", "BertForMaskedLM", bert},
      {"roberta", "Roberta", "RobertaForMaskedLM", bert},
      {"xlm-roberta", "XLMRoberta", "XLMRobertaForMaskedLM", bert},
      {"camembert", "Camembert", "CamembertForMaskedLM", bert},
      {"distilbert", "DistilBert", "DistilBertForMaskedLM",
       with({{"dim", 12}, {"n_layers", 2}, {"n_heads", 3}, {"hidden_dim", 20}, {"max_position_embeddings", 24}})},
      {"modernbert", "ModernBert", "ModernBertForMaskedLM", modern},
      {"gpt2", "GPT2", "GPT2LMHeadModel", with({{"n_embd", 12}, {"n_layer", 2}, {"n_head", 3}, {"n_positions", 24}})},
      {"llama", "Llama", "LlamaForCausalLM", rope},
      {"mistral", "Mistral", "MistralForCausalLM", llama},
      {"qwen2", "Qwen2", "Qwen2ForCausalLM", phi},
      {"qwen3", "Qwen3", "Qwen3ForCausalLM", llama},
      {"phi3", "Phi3", "Phi3ForCausalLM", phi},
      {"gemma2", "Gemma2", "Gemma2ForCausalLM", gemma},
      {"gemma3_text", "Gemma3", "Gemma3ForCausalLM", gemma},
      {"bart", "Bart", "BartForConditionalGeneration", bart},
      {"mbart", "MBart", "MBartForConditionalGeneration", bart},
      {"pegasus", "Pegasus", "PegasusForConditionalGeneration", bart},
      {"marian", "Marian", "MarianMTModel", bart},
      {"t5", "T5", "T5ForConditionalGeneration", t5},
      {"mt5", "MT5", "MT5ForConditionalGeneration", flan},
  };
}

inline SmallFamily small_family(const std::string& name) {
  for (SmallFamily& family : small_families()) {
    if (family.name == name) return std::move(family);
  }
  return {};
}

// Those that read pictures or sound in the place of text.
inline std::vector<SmallFamily> small_feature_families() {
  using Json = nlohmann::json;
  const Json vit = {{"hidden_size", 12},       {"num_hidden_layers", 2}, {"num_attention_heads", 3},
                    {"intermediate_size", 20}, {"image_size", {4, 6}},   {"patch_size", {2, 3}},
                    {"num_channels", 2}};
  const Json ids = {
      {"vocab_size", 30}, {"pad_token_id", 0}, {"bos_token_id", 1}, {"eos_token_id", 2}, {"decoder_start_token_id", 2}};
  Json whisper = {{"d_model", 12},
                  {"encoder_layers", 2},
                  {"decoder_layers", 1},
                  {"encoder_attention_heads", 2},
                  {"decoder_attention_heads", 3},
                  {"encoder_ffn_dim", 10},
                  {"decoder_ffn_dim", 14},
                  {"num_mel_bins", 3},
                  {"max_source_positions", 6},
                  {"max_target_positions", 24}};
  whisper.update(ids);
  Json pair = {{"encoder", vit},
               {"decoder",
                {{"model_type", "gpt2"},
                 {"add_cross_attention", true},
                 {"vocab_size", 30},
                 {"n_embd", 10},
                 {"n_layer", 2},
                 {"n_head", 2},
                 {"n_positions", 24}}}};
  pair["encoder"]["model_type"] = "vit";
  pair.update(ids);
  return {
      {"vit", "ViT", "ViTForImageClassification", vit},
      {"deit", "DeiT", "DeiTForImageClassification", vit},
      {"whisper", "Whisper", "WhisperForConditionalGeneration", whisper},
      {"vision-encoder-decoder", "VisionEncoderDecoder", "VisionEncoderDecoderModel", pair},
  };
}

inline headway::ModelInput small_input(const headway::TransformerModel& model) {
  headway::ModelInput input;
  switch (model.options().encoder.front.kind) {
    case headway::FrontKind::tokens:
      input.tokens = ids({{5, 6, 7, 8, 9}, {10, 11, 12, 13, 14}});
      break;
    case headway::FrontKind::patches:
      input.features = headway::Tensor::randn({2, 2, 4, 6}, 8);
      break;
    case headway::FrontKind::sound:
      input.features = headway::Tensor::randn({2, 3, 9}, 9);
  }
  if (model.options().kind == headway::ModelKind::encoder_decoder) input.target = ids({{2, 4, 6}, {2, 8, 3}});
  return input;
}

}  // namespace headway_test

// Small BERT models with a tokenizer of a few words, whose logits a test can write down.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/random.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "support/files.h"

namespace headway_test {

// The vocabulary: a token's id is its place.
inline const std::vector<std::string>& tiny_words() {
  static const std::vector<std::string> words = {
      "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "ada", "##love", "##lace", "was", "in", "paris", "london",
      ".",     "who",   "the",   "cat",   "sat",    "on",  "mat",    "québec", "東",  "a",  "b",     "c"};
  return words;
}

inline std::int64_t tiny_id(const std::string& word) {
  const auto& words = tiny_words();
  return std::find(words.begin(), words.end(), word) - words.begin();
}

// A tokenizer.json: WordPiece in lower case, [CLS] A [SEP] B [SEP].
inline std::string tiny_tokenizer_json() {
  std::string vocab, added;
  for (std::size_t i = 0; i < tiny_words().size(); ++i) {
    vocab += (i == 0 ? "\"" : ",\"") + tiny_words()[i] + "\":" + std::to_string(i);
    if (i < 5) {
      added += std::string(i == 0 ? "" : ",") + "{\"id\":" + std::to_string(i) + ",\"content\":\"" + tiny_words()[i] +
               "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":true}";
    }
  }
  return R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)" + added +
         R"(],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
         R"("strip_accents":false,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{)"
         R"("type":"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},)"
         R"({"Sequence":{"id":"A","type_id":0}},{"SpecialToken":{"id":"[SEP]","type_id":0}}],)"
         R"("pair":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
         R"({"SpecialToken":{"id":"[SEP]","type_id":0}},{"Sequence":{"id":"B","type_id":1}},)"
         R"({"SpecialToken":{"id":"[SEP]","type_id":1}}],"special_tokens":{)"
         R"("[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},"[SEP]":{"id":"[SEP]","ids":[3],)"
         R"("tokens":["[SEP]"]}}},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
         R"("model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
         R"("max_input_chars_per_word":100,"vocab":{)" +
         vocab + "}}}";
}

inline std::string tiny_tokenizer_config(std::int64_t max_length = 512) {
  return R"({"tokenizer_class":"BertTokenizer","unk_token":"[UNK]","sep_token":"[SEP]","pad_token":"[PAD]",)"
         R"("cls_token":"[CLS]","mask_token":"[MASK]","model_max_length":)" +
         std::to_string(max_length) + "}";
}

// A tokenizer read from a directory, so that it knows its special tokens.
inline headway::TextTokenizer tiny_tokenizer(std::int64_t max_length = 512) {
  const TemporaryDirectory directory;
  write_bytes(directory / "tokenizer.json", tiny_tokenizer_json());
  write_bytes(directory / "tokenizer_config.json", tiny_tokenizer_config(max_length));
  return headway::TextTokenizer::load(directory.path());
}

struct TinyTextOptions {
  std::string architecture = "BertModel";
  std::string more = {};  // fields of the config, each with a comma in front
  std::int64_t positions = 32;
  std::int64_t width = 24;
  std::int64_t layers = 2;
};

inline std::string tiny_config(const TinyTextOptions& options) {
  return R"({"model_type":"bert","architectures":[")" + options.architecture + R"("],"vocab_size":)" +
         std::to_string(tiny_words().size()) + ",\"hidden_size\":" + std::to_string(options.width) +
         ",\"num_hidden_layers\":" + std::to_string(options.layers) +
         R"(,"num_attention_heads":2,"intermediate_size":40,"hidden_act":"gelu","type_vocab_size":2,)"
         R"("max_position_embeddings":)" +
         std::to_string(options.positions) +
         R"(,"layer_norm_eps":1e-12,"pad_token_id":0,"hidden_dropout_prob":0.1,"attention_probs_dropout_prob":0.1)" +
         options.more + "}";
}

// A model with random parameters that are large enough for texts to differ.
inline headway::TransformerModel tiny_model(const TinyTextOptions& options = {}, std::uint64_t seed = 5) {
  headway::TransformerModel model = headway::TransformerModel::from_config(tiny_config(options));
  const headway::NoGradGuard no_grad;
  for (const headway::NamedTensor& parameter : model.named_parameters()) {
    if (parameter.name.find("norm") != std::string::npos) continue;
    headway::Tensor values = headway::Tensor::randn(parameter.tensor.shape(), seed++);
    headway::Tensor changed = parameter.tensor;
    changed.copy_from(headway::scale(values, 0.3));
  }
  model.eval();
  return model;
}

// A model whose logits of a token depend on that token alone, row by row of `table`: (words, labels). The embedding of
// a word is its own direction, and layers add nothing.
inline headway::TransformerModel table_model(TinyTextOptions options, const std::vector<std::vector<float>>& table) {
  const auto words = static_cast<std::int64_t>(tiny_words().size());
  options.width = words;
  options.layers = 1;
  headway::TransformerModel model = headway::TransformerModel::from_config(tiny_config(options));
  const headway::NoGradGuard no_grad;
  for (const headway::NamedTensor& parameter : model.named_parameters()) {
    headway::Tensor value = parameter.tensor;
    const bool is_norm = parameter.name.ends_with("norm.weight");
    value.fill(is_norm ? 1.0 : 0.0);
    if (parameter.name == "embedding.weight") {
      for (std::int64_t i = 0; i < words; ++i) value.data<float>()[i * words + i] = 1.0F;
    }
    if (parameter.name == "head.output.weight") {  // (labels, words)
      for (std::int64_t label = 0; label < value.size(0); ++label) {
        for (std::size_t word = 0; word < table.size(); ++word) {
          value.data<float>()[label * words + static_cast<std::int64_t>(word)] =
              table[word][static_cast<std::size_t>(label)];
        }
      }
    }
  }
  model.eval();
  return model;
}

// A model directory with the tokenizer.
inline void save_tiny(const headway::TransformerModel& model, const std::filesystem::path& directory,
                      std::int64_t max_length = 512) {
  model.save(directory);
  write_bytes(directory / "tokenizer.json", tiny_tokenizer_json());
  write_bytes(directory / "tokenizer_config.json", tiny_tokenizer_config(max_length));
}

}  // namespace headway_test

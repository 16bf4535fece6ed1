// Models and data small enough to be trained in a test.
#pragma once

#include <filesystem>
#include <string>

#include "headway/fine_tuning.h"
#include "support/files.h"

namespace headway_test {

// A BERT of two narrow layers with the head of `architecture`, and a WordPiece vocabulary of a few words beside it.
inline void write_tiny_bert(const std::filesystem::path& directory, const std::string& architecture) {
  std::filesystem::create_directories(directory);
  const std::string words[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "fine",  "poor", "film",
                               "food",  "the",   "was",   "a",     "table",  "for",  "two", "three", "at",   "noon",
                               "eight", "who",   "ate",   "wrote", "ann",    "bob",  "it",  "book",  "very", "not"};
  std::string vocabulary;
  std::int64_t count = 0;
  for (const std::string& word : words) {
    vocabulary += (count == 0 ? "" : ", ") + ("\"" + word + "\": " + std::to_string(count));
    ++count;
  }
  write_bytes(directory / "tokenizer.json",
              R"({"version": "1.0", "truncation": null, "padding": null, "added_tokens": [
    {"id": 0, "content": "[PAD]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 2, "content": "[CLS]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 3, "content": "[SEP]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 4, "content": "[MASK]", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
    "lowercase": true}, "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
    "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
             {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
    "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                       "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100, "vocab": {)" +
                  vocabulary + "}}}");
  write_bytes(directory / "tokenizer_config.json",
              R"({"tokenizer_class": "BertTokenizer", "unk_token": "[UNK]", "pad_token": "[PAD]",
                  "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"})");
  write_bytes(directory / "config.json",
              R"({"model_type": "bert", "architectures": [")" + architecture + R"("], "vocab_size": )" +
                  std::to_string(count) +
                  R"(, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
                  "max_position_embeddings": 48, "type_vocab_size": 2, "hidden_act": "gelu",
                  "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "layer_norm_eps": 1e-12,
                  "initializer_range": 0.2, "pad_token_id": 0})");
}

// A GPT-2 of two narrow layers; its vocabulary comes from the training text.
inline void write_tiny_gpt2(const std::filesystem::path& file) {
  write_bytes(file, R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 1, "n_embd": 16,
                        "n_layer": 2, "n_head": 2, "n_positions": 24, "n_inner": null,
                        "activation_function": "gelu_new", "resid_pdrop": 0.05, "embd_pdrop": 0.05,
                        "attn_pdrop": 0.05, "layer_norm_epsilon": 1e-5, "initializer_range": 0.1})");
}

// A T5 of narrow layers; its vocabulary comes from the training texts.
inline void write_tiny_t5(const std::filesystem::path& file) {
  write_bytes(file, R"({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "vocab_size": 1,
                        "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 2,
                        "num_heads": 2, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 16,
                        "dropout_rate": 0.0, "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu",
                        "is_encoder_decoder": true, "tie_word_embeddings": true})");
}

// Sentences whose label is that of one word in them.
inline std::string tiny_labelled_texts(int copies) {
  std::string text = "text,category\r\n";
  for (int i = 0; i < copies; ++i) {
    text += "the film was good,praise\r\n\"the food was bad\",blame\r\n\"a fine, fine book\",praise\r\n";
    text += "the table was very poor,blame\r\n";
  }
  return text;
}

inline headway::FineTuneConfig tiny_run(const TemporaryDirectory& directory, headway::FineTuneTask task) {
  headway::FineTuneConfig config;
  config.task = task;
  config.output = directory / "out";
  config.learning_rate = 5e-3;
  config.weight_decay = 0.0;
  config.batch = 8;
  config.steps = 60;
  config.checkpoint_every = 7;
  return config;
}

}  // namespace headway_test

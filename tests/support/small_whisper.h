// A directory of Whisper's layout with random weights, for sounds of 8 kHz in windows of 2 s.
#pragma once

#include <filesystem>
#include <string>

#include "headway/random.h"
#include "headway/transformer_model.h"
#include "support/files.h"

namespace headway_test {

inline constexpr const char* kSmallWhisperConfig = R"({
  "model_type": "whisper", "architectures": ["WhisperForConditionalGeneration"], "vocab_size": 12,
  "num_mel_bins": 20, "d_model": 16, "encoder_layers": 2, "encoder_attention_heads": 2, "encoder_ffn_dim": 32,
  "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 32, "max_source_positions": 50,
  "max_target_positions": 16, "median_filter_width": 3, "init_std": 0.4, "bos_token_id": 10,
  "decoder_start_token_id": 10, "eos_token_id": 11, "pad_token_id": 11})";

inline constexpr const char* kSmallWhisperTokenizer = R"({
  "version": "1.0", "truncation": null, "padding": null,
  "added_tokens": [
    {"id": 10, "content": "<start>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 11, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}],
  "normalizer": null, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null,
  "model": {"type": "WordLevel", "unk_token": "<end>",
            "vocab": {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5, "g": 6, "h": 7, "i": 8, "j": 9, "<start>": 10, "<end>": 11}}})";

inline constexpr const char* kSmallWhisperPreprocessor = R"({
  "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 20, "sampling_rate": 8000, "n_fft": 240,
  "hop_length": 160, "chunk_length": 2, "do_normalize": true})";

// Other texts of the files replace those above; an empty one leaves the file out.
struct SmallWhisper {
  std::string generation =
      R"({"decoder_start_token_id": 10, "eos_token_id": 11, "pad_token_id": 11, "max_length": 12})";
  std::string tokenizer = kSmallWhisperTokenizer;
  std::string preprocessor = kSmallWhisperPreprocessor;
};

inline void write_small_whisper(const std::filesystem::path& directory, const SmallWhisper& files = {}) {
  std::filesystem::create_directories(directory);
  headway::set_random_seed(7);
  headway::TransformerModel::from_config(kSmallWhisperConfig).save(directory);
  const auto write = [&](const char* name, const std::string& text) {
    if (!text.empty()) write_bytes(directory / name, text);
  };
  write("generation_config.json", files.generation);
  write("tokenizer.json", files.tokenizer);
  write("preprocessor_config.json", files.preprocessor);
}

}  // namespace headway_test

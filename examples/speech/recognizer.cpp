#include "recognizer.h"

#include <fstream>

namespace speech {
namespace {

constexpr const char* kConfig = R"({
  "model_type": "whisper",
  "architectures": ["WhisperForConditionalGeneration"],
  "vocab_size": 12,
  "num_mel_bins": 48,
  "d_model": 128,
  "encoder_layers": 4,
  "encoder_attention_heads": 4,
  "encoder_ffn_dim": 512,
  "decoder_layers": 2,
  "decoder_attention_heads": 4,
  "decoder_ffn_dim": 256,
  "activation_function": "gelu",
  "dropout": 0.1,
  "attention_dropout": 0.0,
  "activation_dropout": 0.0,
  "max_source_positions": 224,
  "max_target_positions": 32,
  "median_filter_width": 3,
  "scale_embedding": false,
  "tie_word_embeddings": true,
  "init_std": 0.06,
  "bos_token_id": 10,
  "decoder_start_token_id": 10,
  "eos_token_id": 11,
  "pad_token_id": 11,
  "begin_suppress_tokens": null,
  "suppress_tokens": null
})";

constexpr const char* kGeneration = R"({
  "bos_token_id": 10,
  "decoder_start_token_id": 10,
  "eos_token_id": 11,
  "pad_token_id": 11,
  "is_multilingual": false,
  "max_length": 32
}
)";

constexpr const char* kTokenizer = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [
    {"id": 10, "content": "<|startoftranscript|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
    {"id": 11, "content": "<|endoftext|>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}
  ],
  "normalizer": {"type": "Lowercase"},
  "pre_tokenizer": {"type": "Whitespace"},
  "post_processor": null,
  "decoder": null,
  "model": {
    "type": "WordLevel",
    "vocab": {"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9,
              "<|startoftranscript|>": 10, "<|endoftext|>": 11},
    "unk_token": "<|endoftext|>"
  }
}
)";

constexpr const char* kTokenizerConfig = R"({
  "tokenizer_class": "PreTrainedTokenizerFast",
  "bos_token": "<|startoftranscript|>",
  "eos_token": "<|endoftext|>",
  "pad_token": "<|endoftext|>",
  "unk_token": "<|endoftext|>",
  "clean_up_tokenization_spaces": false,
  "model_max_length": 32
}
)";

void write(const std::filesystem::path& file, const char* text) {
  std::ofstream stream(file, std::ios::binary);
  stream << text;
  if (!stream.flush()) throw headway::Error(file.string() + " cannot be written");
}

}  // namespace

headway::LogMelOptions features_of_sounds() {
  return {.rate = 8000,
          .window = 250,
          .hop = 125,
          .bins = 48,
          .length = kSeconds * 8000,
          .max_frequency = 8000.0,
          .normalize = true};
}

headway::TransformerModel new_model() { return headway::TransformerModel::from_config(kConfig); }

void save_directory(const headway::TransformerModel& model, const std::filesystem::path& directory) {
  model.save(directory, headway::DType::float16);
  write(directory / "generation_config.json", kGeneration);
  features_of_sounds().save(directory);
  write(directory / "tokenizer.json", kTokenizer);
  write(directory / "tokenizer_config.json", kTokenizerConfig);
}

headway::Tensor features_of(const Samples& samples, double seconds) {
  headway::LogMelOptions options = features_of_sounds();
  options.length = static_cast<std::int64_t>(seconds * kRate);
  return headway::log_mel(headway::Tensor::wrap(samples, {static_cast<std::int64_t>(samples.size())}), options);
}

headway::Tensor masked_features(const Samples& samples, double seconds, Random& random) {
  headway::Tensor features = features_of(samples, seconds);
  const std::int64_t bins = features.size(0), frames = features.size(1);
  float* values = features.data<float>();
  double mean = 0.0;
  for (std::int64_t i = 0; i < bins * frames; ++i) mean += static_cast<double>(values[i]);
  const auto hidden = static_cast<float>(mean / static_cast<double>(bins * frames));
  for (std::int64_t n = random.integer(0, 2); n > 0; --n) {  // frames, up to 0.14 s
    const std::int64_t count = random.integer(1, 9), first = random.integer(0, frames - count);
    for (std::int64_t bin = 0; bin < bins; ++bin) {
      for (std::int64_t frame = first; frame < first + count; ++frame) values[bin * frames + frame] = hidden;
    }
  }
  for (std::int64_t n = random.integer(0, 2); n > 0; --n) {  // bins
    const std::int64_t count = random.integer(1, 6), first = random.integer(0, bins - count);
    for (std::int64_t i = first * frames; i < (first + count) * frames; ++i) values[i] = hidden;
  }
  return features;
}

}  // namespace speech

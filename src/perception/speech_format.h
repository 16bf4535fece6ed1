// What the files of a Whisper directory say beside the model: features, prompt, languages, alignment heads.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headway/audio.h"
#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

struct SpeechFormat {
  LogMelOptions features = {};

  std::int64_t start = 0;  // the decoder's first token
  // After it, of older directories (forced_decoder_ids); -1: the language is to be found out.
  std::vector<std::int64_t> forced = {};
  std::map<std::string, std::int64_t> languages = {};  // "en" to its token
  std::map<std::string, std::int64_t> tasks = {};      // "transcribe", "translate"
  std::string language = {};                           // the directory's default
  std::string task = {};
  std::optional<std::int64_t> no_timestamps = {};
  std::optional<std::int64_t> max_length = {};  // of a text without its prompt, where the directory says
  std::vector<std::pair<std::int64_t, std::int64_t>> alignment_heads = {};  // layers and heads
  std::int64_t median_width = 7;                                            // of the filter over their weights

  // Seconds of one position of the encoder, of which there are half as many as frames.
  double seconds_per_position() const {
    return 2.0 * static_cast<double>(features.hop) / static_cast<double>(features.rate);
  }
};

SpeechFormat read_speech_format(const std::filesystem::path& directory, const TransformerModel& model);

// Whether the language's token is neither in the directory nor in `language`, so that the model is to find it out.
bool needs_language(const SpeechFormat& format, const std::string& language);

// The tokens that the decoder begins with. `language`: its token, where the model knows several.
std::vector<std::int64_t> prompt_of(const SpeechFormat& format, std::optional<std::int64_t> language,
                                    const std::string& task);

// The code of a language as "en", "english" or "<|en|>" names it; an Error lists those that the model knows.
std::string language_code_of(const SpeechFormat& format, const std::string& name);

}  // namespace headway::inline v0::internal

// Sound to text, with models of Whisper's layout. Part of libheadway_media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/attention_view.h"
#include "headway/audio.h"
#include "headway/export.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

// What is not given here is taken from the model's generation_config.json.
struct TranscribeOptions {
  std::optional<std::int64_t> beams = {};           // more than 1: beam search
  std::optional<std::int64_t> max_new_tokens = {};  // of each window
  std::string language = {};     // "en", "english" or "<|en|>", of models that know several; empty: the likeliest one
  std::string task = {};         // "transcribe" or "translate", of models that do both; empty: "transcribe"
  bool words = true;             // with the times of words, which take one more pass of the decoder
  bool attention = false;        // with Transcript::attention
  std::int64_t batch_size = 16;  // windows that are computed together
};

struct TranscribedWord {
  std::string text;
  double start = 0.0;  // seconds
  double end = 0.0;
};

// What was said in a sound.
struct Transcript {
  std::string text;
  std::vector<std::int64_t> tokens;             // without the prompt; each window's with its end token
  std::vector<TranscribedWord> words;           // unless they were not wanted
  double score = 0.0;                           // mean log-probability of the tokens
  double seconds = 0.0;                         // of the sound
  std::string language;                         // of models that know several: "en"
  std::string notes;                            // "mixed from 2 channels; silence"; empty: nothing to note
  std::vector<AttentionRecord> attention = {};  // of each window that is not silent, on request
};

namespace internal {
class FeatureGenerator;
struct SpeechFormat;
}  // namespace internal

// A model directory of Whisper's layout, ready to transcribe. Members may be called from several threads at once.
//
// A sound that is longer than the model's window is cut into windows at its quietest places, and their texts are
// joined. What is below -80 dB of full scale is silence: a window of nothing else has no text, and longer silence at
// the ends of a window is left out.
class HEADWAY_API Transcriber {
 public:
  // Reads config.json, model.safetensors, generation_config.json, preprocessor_config.json and the tokenizer.
  explicit Transcriber(const std::filesystem::path& directory, const TaskOptions& options = {});

  Transcript transcribe(const Sound& sound, const TranscribeOptions& options = {}) const;
  // A sound file, whose rate and channels are converted to the model's.
  Transcript transcribe(const std::filesystem::path& file, const TranscribeOptions& options = {}) const;
  // Several sounds; their windows are computed together.
  std::vector<Transcript> transcribe(const std::vector<Sound>& sounds, const TranscribeOptions& options = {}) const;

  // The languages that the model knows: "en", ...; none of a model of one language.
  std::vector<std::string> languages() const;
  // Samples a second that the model reads, and the seconds of its window.
  std::int64_t rate() const;
  double window_seconds() const;
  const TransformerModel& model() const { return model_; }
  const TextTokenizer& tokenizer() const { return tokenizer_; }

 private:
  TransformerModel model_;
  TextTokenizer tokenizer_;
  std::shared_ptr<const internal::SpeechFormat> format_;
  std::shared_ptr<const internal::FeatureGenerator> generator_;
};

}  // namespace v0
}  // namespace headway

// One call of Transcriber::transcribe(): windows of all sounds, their tokens, times and attention.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headway/transcriber.h"
#include "perception/sound_windows.h"
#include "perception/speech_format.h"
#include "tasks/feature_generator.h"

namespace headway::inline v0::internal {

struct TranscriptionInput {
  const TransformerModel& model;
  const TextTokenizer& tokenizer;
  const SpeechFormat& format;
  const FeatureGenerator& generator;
  const TranscribeOptions& options;
};

class TranscriptionJob {
 public:
  explicit TranscriptionJob(TranscriptionInput input) : input_(input) {}

  std::vector<Transcript> run(const std::vector<Sound>& sounds);

 private:
  // What is known of a window that is not silent.
  struct Part {
    std::size_t sound = 0;
    SoundWindow window = {};
    Tensor features = {};                   // [bins, frames], as log_mel() gives
    std::string language = {};              // of models that know several
    std::vector<std::int64_t> prompt = {};  // the decoder's first tokens
    GeneratedText generated = {};
    std::vector<TranscribedWord> words = {};
    std::optional<AttentionRecord> attention = {};
  };

  void add_windows(std::size_t number, const Sound& sound, Transcript& transcript);
  // Everything about parts first .. last - 1, which are computed together.
  void transcribe(std::size_t first, std::size_t last);
  void find_languages(std::size_t first, std::size_t last, const Tensor& memory);
  void generate(std::size_t first, std::size_t last);
  void find_times(std::size_t first, std::size_t last, const Tensor& memory);
  void set_words(Part& part, const std::vector<std::int64_t>& starts) const;
  AttentionRecord attention_of(const Part& part) const;
  void join(const Part& part, Transcript& transcript) const;

  // Positions of the encoder that are sound and not padding.
  std::int64_t positions_of(const Part& part) const;

  TranscriptionInput input_;
  std::vector<Sound> sounds_ = {};  // at the model's rate
  std::vector<Part> parts_ = {};
};

}  // namespace headway::inline v0::internal

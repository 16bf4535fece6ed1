// Text to text by encoder-decoders: summaries with BART and Pegasus, T5's tasks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/text_generator.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

struct TextToTextOptions {
  std::string prefix = {};  // comes before every text, as T5's "summarize: "
  // A text with more tokens than the model has positions, or than model_max_length of its tokenizer, is cut; otherwise
  // more than the positions are an Error.
  bool truncate = true;
  // The first token that is written, as mBART's code of a language; default: of the config.
  std::optional<std::int64_t> first_token = {};
  // GenerateOptions::prefix is not used.
  GenerateOptions generate = {};
};

struct TextToTextResult {
  std::vector<GeneratedText> best;  // num_return texts, the best first
  bool truncated = false;           // the source was cut

  const std::string& text() const { return best.front().text; }
};

// An encoder-decoder and its tokenizer. Members may be called from several threads at once.
class HEADWAY_API TextToText {
 public:
  // A Hugging Face directory. Without a tokenizer in it, texts are given and returned as token ids.
  explicit TextToText(const std::filesystem::path& directory, const TaskOptions& options = {});
  explicit TextToText(TransformerModel model, std::optional<TextTokenizer> tokenizer = {});

  TextToTextResult run(std::string_view text, const TextToTextOptions& options = {}) const;
  // Results in the order of the texts.
  std::vector<TextToTextResult> run(const std::vector<std::string>& texts, const TextToTextOptions& options = {}) const;
  // The same with token ids, which are taken as they are, with their end token.
  std::vector<TextToTextResult> run(const std::vector<std::vector<std::int64_t>>& sources,
                                    const TextToTextOptions& options = {}) const;

  const TransformerModel& model() const { return model_; }
  const std::optional<TextTokenizer>& tokenizer() const { return tokenizer_; }

 private:
  TransformerModel model_;
  std::optional<TextTokenizer> tokenizer_;
  std::shared_ptr<const internal::StepDecoder> decoder_;
  std::shared_ptr<const internal::GenerationDefaults> defaults_;
};

}  // namespace v0
}  // namespace headway

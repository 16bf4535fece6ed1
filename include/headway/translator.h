// Translating text: greedy and beam search over a TranslationModel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"

namespace headway {
inline namespace v0 {

struct SearchOptions {
  std::int64_t beam = 1;        // 1: greedy
  std::int64_t num_best = 1;    // hypotheses to give back, at most `beam`
  double length_penalty = 1.0;  // a hypothesis's score is its log-probability / length ^ length_penalty
  // The most tokens of a translation; 0: as many as the model has positions for, at most 2 * source + 50.
  std::int64_t max_length = 0;
  std::int64_t batch_size = 32;  // sentences at once; they are sorted by length, and given back in their order
  // Called with every new token's id and, by Translator, the text so far; for one sentence in greedy search.
  std::function<void(std::int64_t token, const std::string& text)> on_token = nullptr;
};

struct Hypothesis {
  std::vector<std::int64_t> tokens;  // without the start token, </s> included where it came
  double score = 0.0;                // normalised log-probability
  bool complete = false;             // </s> came before max_length
};

// Hypotheses for each source (ids with </s>), the best first. They are searched for where the model is.
HEADWAY_API std::vector<std::vector<Hypothesis>> search(const TranslationModel& model,
                                                        const std::vector<std::vector<std::int64_t>>& sources,
                                                        const SearchOptions& options = {});

struct TranslateOptions {
  SearchOptions search = {};
  std::string to = {};  // the target language: a code of the model or its two-letter form ("de"); empty: the model's
                        // only one, or for two the one that the text does not seem to be in
};

struct Translation {
  std::string text;               // of the best hypothesis
  std::vector<std::string> best;  // texts of all hypotheses asked for
  std::vector<double> scores;     // of `best`
  std::string to;                 // the language's code
  std::string note;               // what was remarkable: the text was cut, was not UTF-8, ...; empty: nothing
};

namespace internal {
class StepDecoder;
}

// A model directory, ready to translate on the CPU or a GPU. Members may be called from several threads at once; a
// model that is not from a directory must be in evaluation for that.
class HEADWAY_API Translator {
 public:
  // On a GPU it may compute with numbers of 16 bits, which is faster; on the CPU it computes in float32.
  explicit Translator(const std::filesystem::path& directory, Device device = Device::cpu(),
                      DType dtype = DType::float32);
  Translator(TranslationModel model, TranslationTokenizer tokenizer);

  // Translates each text, in order. An empty or blank text gives an empty translation. Lines of a text are translated
  // by themselves, and so are the sentences of a long one; a sentence with more tokens than the model has positions is
  // cut between words. A text may begin with its target language's code, ">>deu<<"; where neither that nor `to` says
  // it and the model has two languages, the text's own is the one of whose most common words it has more, and where
  // that does not tell, the other one is the one into which the model translates with the better score.
  std::vector<Translation> translate(const std::vector<std::string>& texts, const TranslateOptions& options = {}) const;

  // The code for a target language given as "de", "deu" or "German"; throws naming those there are.
  std::string language_code(std::string_view name) const;

  const TranslationModel& model() const { return model_; }
  const TranslationTokenizer& tokenizer() const { return tokenizer_; }

 private:
  TranslationModel model_;
  TranslationTokenizer tokenizer_;
  std::shared_ptr<const internal::StepDecoder> decoder_;
};

}  // namespace v0
}  // namespace headway

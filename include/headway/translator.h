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
#include "headway/text_task.h"
#include "headway/tokenizer.h"
#include "headway/translation_model.h"

namespace headway {
inline namespace v0 {

// How translations are searched for.
struct SearchOptions {
  std::int64_t beam = 1;         // hypotheses kept at every step; 1 is greedy search
  std::int64_t num_best = 1;     // hypotheses to return, at most `beam`
  double length_penalty = 1.0;   // a hypothesis's score is its log-probability / length ^ length_penalty
  std::int64_t max_length = 0;   // the most tokens of a translation; 0: 2 * source + 50, within the model's positions
  std::int64_t batch_size = 32;  // sentences decoded together; they are sorted by length and returned in input order
  // Called after every new token with its id and, by Translator, the text so far. Needs greedy search and one source.
  std::function<void(std::int64_t token, const std::string& text)> on_token = nullptr;
};

struct Hypothesis {
  std::vector<std::int64_t> tokens;  // without the start token; ends with </s> where it is complete
  double score = 0.0;                // log-probability / length ^ length_penalty
  bool complete = false;             // </s> was chosen within max_length
};

// Hypotheses for each source (ids with </s>), the best first, computed on the model's device.
HEADWAY_API std::vector<std::vector<Hypothesis>> search(const TranslationModel& model,
                                                        const std::vector<std::vector<std::int64_t>>& sources,
                                                        const SearchOptions& options = {});

struct TranslateOptions {
  SearchOptions search = {};
  std::string to = {};  // the target language, as "de", "deu" or "German"; empty: see Translator::translate()
};

// Remarks on the translation of a text.
struct TranslationNotes {
  bool empty = false;                   // the text has no characters
  bool blank = false;                   // the text is white space alone
  bool invalid_utf8 = false;            // bytes that are not UTF-8 were replaced by U+FFFD
  std::int64_t segments = 0;            // how many segments the text was cut into; 0: its lines are whole
  std::int64_t unknown_characters = 0;  // characters that the vocabulary spells in bytes or lacks
  bool cut_off = false;                 // the translation reached max_length before its end

  bool operator==(const TranslationNotes&) const = default;
  // True where there is nothing to note.
  bool none() const { return *this == TranslationNotes{}; }
  // The notes in English, separated by semicolons; "" where there are none.
  HEADWAY_API std::string describe() const;
};

struct Translation {
  std::string text;               // of the best hypothesis
  std::vector<std::string> best;  // the texts of num_best hypotheses
  std::vector<double> scores;     // of `best`
  std::string to;                 // the target language's code; "" for a model of one direction
  TranslationNotes notes;
};

namespace internal {
class StepDecoder;
}

// A model directory, ready to translate on the CPU or a GPU. Members may be called from several threads at once; a
// model that was passed to the constructor must be in evaluation mode for that.
class HEADWAY_API Translator {
 public:
  // The dtype is by default float32, or int8 where the directory has it. On a GPU it may be float16 or bfloat16, which
  // is faster; on the CPU int8: weights in 8 bits.
  explicit Translator(const std::filesystem::path& directory, const TaskOptions& options = {});
  Translator(const std::filesystem::path& directory, Device device, DType dtype = DType::float32);
  Translator(TranslationModel model, TranslationTokenizer tokenizer);

  // Translates each text and returns the translations in the order of the texts.
  //
  // A text is cut into segments that are translated by themselves: its lines, the sentences of a long line, and
  // parts between words of a sentence with more tokens than the model has positions. An empty or blank text has an
  // empty translation.
  //
  // The target language of a text is the first of these that applies:
  //   1. the code that the text begins with, as in ">>deu<< Good morning!";
  //   2. `options.to`;
  //   3. the model's only target language;
  //   4. of a model with two languages, the one that the text is not in. The text is taken to be in the language
  //      of which it has more common words; where it has as many of both, its beginning is translated into both,
  //      and the translation with the better score decides.
  // A model with three or more languages needs 1 or 2; without them an Error lists the languages.
  std::vector<Translation> translate(const std::vector<std::string>& texts, const TranslateOptions& options = {}) const;

  // The model's code of a target language given as "de", "deu" or "German"; an Error lists the codes that exist.
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

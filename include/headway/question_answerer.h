// Answers to questions: spans of a text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/text_task.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"

namespace headway {
inline namespace v0 {

struct Question {
  std::string question;
  std::string context;  // the text that holds the answer
};

struct Answer {
  std::string text;  // bytes [begin, end) of the context; empty: there is no answer
  double score = 0.0;
  std::int64_t begin = 0, end = 0;
};

struct Answers {
  std::vector<Answer> best;  // the best first; none for an empty context
  double no_answer = 0.0;    // the score of there being no answer: the smallest of all windows'
  TextNotes notes;

  const Answer& front() const { return best.front(); }
};

struct AnswerOptions {
  std::int64_t num_best = 1;
  std::int64_t max_answer_length = 15;  // in tokens
  std::int64_t max_length = 384;        // tokens of a window, the question included; at most the model's positions
  std::int64_t stride = 128;            // tokens that neighbouring windows share
  bool allow_no_answer = false;         // an empty answer competes with the others by its score
  bool whole_words = true;              // answers begin and end where words do
  std::int64_t batch_tokens = 0;        // tokens computed together; 0: as many as suit the device
};

// A model with a span head, as fine-tuned on SQuAD. Members may be called from several threads at once.
class HEADWAY_API QuestionAnswerer {
 public:
  explicit QuestionAnswerer(const std::filesystem::path& directory, const TaskOptions& options = {});
  // The model must be in evaluation mode.
  QuestionAnswerer(TransformerModel model, TextTokenizer tokenizer);

  // A long context is read in overlapping windows. A score is the product of two probabilities: that the answer begins
  // at its first token and that it ends at its last one, each among the tokens of its window.
  Answers answer(const std::string& question, const std::string& context, const AnswerOptions& options = {}) const;
  // The same for several, whose windows are computed together.
  std::vector<Answers> answer(const std::vector<Question>& questions, const AnswerOptions& options = {}) const;

  std::int64_t max_length() const;
  const TransformerModel& model() const;
  const TextTokenizer& tokenizer() const;

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

}  // namespace v0
}  // namespace headway

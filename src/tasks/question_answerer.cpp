// QuestionAnswerer: windows of the context, probabilities of beginnings and ends, the best spans.
#include "headway/question_answerer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/utf8.h"
#include "tasks/packed_batches.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// Tokens [first, last] of a window.
struct AnswerSpan {
  std::size_t first = 0, last = 0;
  double score = 0.0;
};

// The probability of each token of a window; those that are neither of the context nor [CLS] have none.
std::vector<double> span_softmax(const float* logits, std::size_t column, const std::vector<bool>& allowed) {
  std::vector<double> scores(allowed.size(), 0.0);
  double largest = -INFINITY, sum = 0.0;
  for (std::size_t t = 0; t < allowed.size(); ++t) {
    if (allowed[t]) largest = std::max(largest, static_cast<double>(logits[2 * t + column]));
  }
  for (std::size_t t = 0; t < allowed.size(); ++t) {
    if (allowed[t]) sum += scores[t] = std::exp(static_cast<double>(logits[2 * t + column]) - largest);
  }
  for (double& score : scores) score /= sum > 0.0 ? sum : 1.0;
  return scores;
}

// The `most` best spans of at most `longest` tokens among the tokens of the context.
std::vector<AnswerSpan> best_spans(const std::vector<double>& begins, const std::vector<double>& ends,
                                   const TokenizedText& window, std::size_t longest, std::size_t most) {
  std::vector<AnswerSpan> spans;
  const auto better = [](const AnswerSpan& a, const AnswerSpan& b) { return a.score > b.score; };
  for (std::size_t first = 0; first < begins.size(); ++first) {
    if (window.sequence[first] != 1) continue;
    for (std::size_t last = first; last < std::min(first + longest, ends.size()); ++last) {
      if (window.sequence[last] != 1) break;
      spans.push_back({first, last, begins[first] * ends[last]});
    }
  }
  const std::size_t kept = std::min(most, spans.size());
  std::partial_sort(spans.begin(), spans.begin() + static_cast<std::ptrdiff_t>(kept), spans.end(), better);
  spans.resize(kept);
  return spans;
}

// Bytes [begin, end) of the context that a span covers, without spaces around it.
TokenOffsets bytes_of(const TokenizedText& window, AnswerSpan span, const std::string& context, bool whole_words) {
  const auto same_word = [&](std::size_t a, std::size_t b) {
    return window.sequence[a] == 1 && window.sequence[b] == 1 && window.words[a] >= 0 &&
           window.words[a] == window.words[b];
  };
  if (whole_words) {
    while (span.first > 0 && same_word(span.first - 1, span.first)) --span.first;
    while (span.last + 1 < window.ids.size() && same_word(span.last, span.last + 1)) ++span.last;
  }
  TokenOffsets bytes = {window.offsets[span.first].begin, window.offsets[span.last].end};
  const auto is_space = [&](std::int64_t at) {
    return std::string_view(" \t\r\n").find(context[static_cast<std::size_t>(at)]) != std::string_view::npos;
  };
  while (bytes.begin < bytes.end && is_space(bytes.begin)) ++bytes.begin;
  while (bytes.begin < bytes.end && is_space(bytes.end - 1)) --bytes.end;
  return bytes;
}

// One call of answer(): the windows of all questions, and what was found in them.
class AnsweringJob {
 public:
  AnsweringJob(const TaskModel& model, const AnswerOptions& options) : model_(model), options_(options) {
    check(options.num_best >= 1, model.who, ": num_best is ", options.num_best, ", expected at least 1");
    check(options.max_answer_length >= 1, model.who, ": max_answer_length is ", options.max_answer_length,
          ", expected at least 1");
    check(options.max_length >= 8, model.who, ": max_length is ", options.max_length, ", expected at least 8");
    check(options.stride >= 0, model.who, ": stride is ", options.stride, ", expected at least 0");
    longest_ = smaller_limit(options.max_length, model.max_length);
  }

  std::vector<Answers> run(const std::vector<Question>& questions) {
    results_.resize(questions.size());
    spans_.resize(questions.size());
    no_answer_.resize(questions.size(), 1.0);
    for (std::size_t i = 0; i < questions.size(); ++i) add_windows(i, questions[i]);
    for_each_batch(model_, windows_, options_.batch_tokens, [&](const PackedBatch& batch, const ModelResult& result) {
      const Tensor logits = on_cpu(result.logits);  // [1, total, 2]
      for (std::size_t i = 0; i < batch.texts.size(); ++i) {
        read_window(batch.texts[i], logits.data<float>() + 2 * batch.starts[i]);
      }
    });
    for (std::size_t i = 0; i < questions.size(); ++i) finish(i);
    return std::move(results_);
  }

 private:
  void add_windows(std::size_t number, const Question& asked);
  std::string shortened_question(const std::string& question, TextNotes& notes) const;
  void read_window(std::size_t window, const float* logits);
  void finish(std::size_t number);

  const TaskModel& model_;
  const AnswerOptions& options_;
  std::int64_t longest_ = 0;                                                    // tokens of a window
  std::vector<TokenizedText> windows_;                                          // of all questions
  std::vector<std::size_t> owners_;                                             // (windows) their questions
  std::vector<std::string> contexts_;                                           // (questions) valid UTF-8
  std::vector<std::map<std::pair<std::int64_t, std::int64_t>, double>> spans_;  // (questions) bytes to scores
  std::vector<double> no_answer_;                                               // (questions)
  std::vector<Answers> results_;                                                // (questions)
};

// A question takes at most half of a window; what is longer is cut.
std::string AnsweringJob::shortened_question(const std::string& question, TextNotes& notes) const {
  const TokenizedText tokens = model_.tokenizer.tokenize(question, {.special_tokens = false});
  notes.invalid_utf8 = tokens.invalid_utf8;
  std::string text = tokens.invalid_utf8 ? repaired_utf8(question) : question;
  const auto count = static_cast<std::int64_t>(tokens.ids.size());
  if (count <= longest_ / 2) return text;
  notes.tokens_left_out = count - longest_ / 2;
  text.resize(static_cast<std::size_t>(tokens.offsets[static_cast<std::size_t>(longest_ / 2 - 1)].end));
  return text;
}

void AnsweringJob::add_windows(std::size_t number, const Question& asked) {
  TextNotes& notes = results_[number].notes;
  const std::string question = shortened_question(asked.question, notes);
  const bool broken = !is_utf8(asked.context);
  contexts_.push_back(broken ? repaired_utf8(asked.context) : asked.context);
  notes.invalid_utf8 = notes.invalid_utf8 || broken;
  notes.empty = is_blank(question) || is_blank(contexts_.back());
  if (is_blank(contexts_.back())) return;
  const TokenizedText special = model_.tokenizer.tokenize(question, "");
  const std::int64_t left = longest_ - static_cast<std::int64_t>(special.ids.size());  // tokens of the context
  check(left > 0, "a window has ", longest_, " tokens, expected more than the ", special.ids.size(),
        " of the question");
  for (TokenizedText& window : model_.tokenizer.tokenize_windows(question, contexts_.back(),
                                                                 {.max_length = longest_,
                                                                 .stride = std::min(options_.stride, left / 2),
                                                                 .truncated = TruncatedText::second})) {
    model_.check_ids(window);
    windows_.push_back(std::move(window));
    owners_.push_back(number);
  }
}

void AnsweringJob::read_window(std::size_t number, const float* logits) {
  const TokenizedText& window = windows_[number];
  const std::size_t owner = owners_[number];
  const auto cls = std::find(window.ids.begin(), window.ids.end(), model_.tokenizer.cls_id().value_or(-1));
  const bool has_cls = cls != window.ids.end();
  const auto place = static_cast<std::size_t>(cls - window.ids.begin());
  std::vector<bool> allowed(window.ids.size());
  for (std::size_t t = 0; t < allowed.size(); ++t) allowed[t] = window.sequence[t] == 1 || (has_cls && t == place);
  const std::vector<double> begins = span_softmax(logits, 0, allowed), ends = span_softmax(logits, 1, allowed);
  const double no_answer = has_cls ? begins[place] * ends[place] : 0.0;
  no_answer_[owner] = std::min(no_answer_[owner], no_answer);
  // Several spans may cover the same words, so more of them are looked at than are wanted.
  const auto most = static_cast<std::size_t>(options_.num_best) * 4 + 16;
  for (const AnswerSpan& span :
       best_spans(begins, ends, window, static_cast<std::size_t>(options_.max_answer_length), most)) {
    const TokenOffsets bytes = bytes_of(window, span, contexts_[owner], options_.whole_words);
    if (bytes.begin >= bytes.end) continue;
    double& score = spans_[owner][{bytes.begin, bytes.end}];
    score = std::max(score, span.score);
  }
}

void AnsweringJob::finish(std::size_t number) {
  Answers& answers = results_[number];
  const std::string& context = contexts_[number];
  for (const auto& [bytes, score] : spans_[number]) {
    const auto [begin, end] = bytes;
    answers.best.push_back(
        {context.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), score, begin, end});
  }
  answers.no_answer = no_answer_[number];
  if (options_.allow_no_answer) answers.best.push_back({"", answers.no_answer, 0, 0});
  std::stable_sort(answers.best.begin(), answers.best.end(),
                   [](const Answer& a, const Answer& b) { return a.score > b.score; });
  answers.best.resize(std::min(answers.best.size(), static_cast<std::size_t>(options_.num_best)));
}

}  // namespace
}  // namespace internal

struct QuestionAnswerer::Parts {
  explicit Parts(internal::TaskModel with_model) : model(std::move(with_model)) {
    model.check_head(HeadKind::span, "ForQuestionAnswering");
  }
  internal::TaskModel model;
};

QuestionAnswerer::QuestionAnswerer(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("QuestionAnswerer", directory, options))) {}

QuestionAnswerer::QuestionAnswerer(TransformerModel model, TextTokenizer tokenizer)
    : parts_(std::make_shared<const Parts>(
          internal::TaskModel("QuestionAnswerer", std::move(model), std::move(tokenizer)))) {}

Answers QuestionAnswerer::answer(const std::string& question, const std::string& context,
                                 const AnswerOptions& options) const {
  return answer(std::vector<Question>{{question, context}}, options).front();
}

std::vector<Answers> QuestionAnswerer::answer(const std::vector<Question>& questions,
                                              const AnswerOptions& options) const {
  return internal::AnsweringJob(parts_->model, options).run(questions);
}

std::int64_t QuestionAnswerer::max_length() const { return parts_->model.max_length; }
const TransformerModel& QuestionAnswerer::model() const { return parts_->model.model; }
const TextTokenizer& QuestionAnswerer::tokenizer() const { return parts_->model.tokenizer; }

}  // namespace headway::inline v0

// Where a text answers a question.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "headway/ops.h"
#include "training/parts_task.h"
#include "training/span_scores.h"
#include "training/tasks.h"
#include "training/tokenize_texts.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kLongestAnswer = 30;  // tokens

// A question with the text that answers it.
struct QuestionExample {
  ContextQuestion question;
  std::string context;
};

std::vector<QuestionExample> read_question_examples(const std::filesystem::path& file) {
  QuestionFile all = read_questions(file);
  std::vector<QuestionExample> examples;
  for (ContextQuestion& question : all.questions) {
    const std::string& context = all.contexts[static_cast<std::size_t>(question.context)];
    examples.push_back({std::move(question), context});
  }
  return examples;
}

// The target of a window: tokens of the answer's begin and end, and the first token of the context's segment.
struct WindowTarget {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t second_segment = 0;
};

// The place of an answer in a window; the first token where it is not wholly inside.
WindowTarget target_of(const TokenizedText& window, const ContextQuestion& question) {
  WindowTarget target;
  const auto second = std::find(window.type_ids.begin(), window.type_ids.end(), 1);
  target.second_segment = second - window.type_ids.begin();
  if (question.answers.empty()) return target;
  const AnswerSpan& answer = question.answers.front();
  const std::int64_t answer_end = answer.begin + std::ssize(answer.text);
  std::int64_t begin = -1, end = -1;
  for (std::size_t i = 0; i < window.ids.size(); ++i) {
    if (window.sequence[i] != 1) continue;
    const TokenOffsets& place = window.offsets[i];
    if (place.begin <= answer.begin && answer.begin < place.end) begin = static_cast<std::int64_t>(i);
    if (place.begin < answer_end && answer_end <= place.end) end = static_cast<std::int64_t>(i);
  }
  if (begin >= 0 && end >= begin) {
    target.begin = begin;
    target.end = end;
  }
  return target;
}

struct BestAnswer {
  double score = -std::numeric_limits<double>::infinity();
  std::int64_t begin = 0;  // bytes of the context
  std::int64_t end = 0;
};

// Keeps the best pair of a begin and an end in a window; logits [length, 2].
void look_at_window(BestAnswer& best, const TokenizedText& window, const double* logits) {
  const std::int64_t length = std::ssize(window.ids);
  for (std::int64_t begin = 0; begin < length; ++begin) {
    if (window.sequence[static_cast<std::size_t>(begin)] != 1) continue;
    for (std::int64_t end = begin; end < std::min(length, begin + kLongestAnswer); ++end) {
      if (window.sequence[static_cast<std::size_t>(end)] != 1) break;
      const double score = logits[2 * begin] + logits[2 * end + 1];
      if (score <= best.score) continue;
      best = {score, window.offsets[static_cast<std::size_t>(begin)].begin,
              window.offsets[static_cast<std::size_t>(end)].end};
    }
  }
}

class AnswerTask : public PartsTask<QuestionExample> {
 public:
  explicit AnswerTask(const FineTuneConfig& config)
      : PartsTask(config, read_parts<QuestionExample>(
                              config,
                              [](const std::filesystem::path& file, const std::string& names) {
                                check(names.empty(), "parts is \"", names, "\", which is for the task classify");
                                return read_question_examples(file);
                              },
                              [](const QuestionExample& example, std::int64_t) { return example.question.article; })) {}

  HeadKind head() const override { return HeadKind::span; }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    pad_id_ = padding_of(options);
    has_types_ = options.encoder.token_types > 1;
    const TokenizeOptions cut{.max_length = longest_text(config(), options.encoder),
                              .stride = config().stride,
                              .truncated = TruncatedText::second};
    for (const DataPart part : kAllParts) {
      const std::vector<QuestionExample>& examples = examples_of(part);
      std::vector<std::vector<TokenizedText>> windows(examples.size());
      for_each_text(examples.size(), [&](std::size_t i) {
        windows[i] = tokenizer.tokenize_windows(examples[i].question.question, examples[i].context, cut);
      });
      for (std::size_t i = 0; i < examples.size(); ++i) {
        for (TokenizedText& window : windows[i]) {
          const WindowTarget target = target_of(window, examples[i].question);
          sets().of(part).add(window.ids, {{target.begin, target.end, target.second_segment}});
          windows_[static_cast<std::size_t>(part)].push_back({static_cast<std::int64_t>(i), std::move(window)});
        }
      }
    }
    sets().plan(config());
  }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    const auto members = sets().training_plan().members(index);
    const TokenRows rows = rows_of(model, DataPart::training, members);
    const Tensor logits = model.forward(rows.input()).logits;
    return {.loss = loss_of(logits, DataPart::training, members, Reduction::mean), .tokens = rows.count};
  }

  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    BatchPlan plan = sets().evaluation_plan(part);
    std::vector<BestAnswer> best(examples_of(part).size());
    double loss = 0.0;
    for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
      const auto members = plan.members(i);
      const Tensor logits =
          model.forward(rows_of(model, part, members).input()).logits.to(Device::cpu()).to(DType::float32);
      loss += loss_of(logits, part, members, Reduction::sum).item();
      const std::vector<double> numbers = logits.to_vector();  // [rows, length, 2]
      for (std::size_t row = 0; row < members.size(); ++row) {
        const Window& window = windows_[static_cast<std::size_t>(part)][static_cast<std::size_t>(members[row])];
        look_at_window(best[static_cast<std::size_t>(window.example)], window.tokens,
                       numbers.data() + static_cast<std::int64_t>(row) * logits.size(1) * 2);
      }
    }
    FineTuneScores scores = scores_of(best, part);
    scores.loss = loss / static_cast<double>(sets().of(part).size());
    return scores;
  }

 private:
  struct Window {
    std::int64_t example = 0;
    TokenizedText tokens;
  };

  std::string text_of(const QuestionExample& example) const override {
    return example.question.question + "\n" + example.context;
  }
  std::string target_text_of(const QuestionExample& example) const override {
    std::string text;
    for (const AnswerSpan& answer : example.question.answers) {
      text += std::to_string(answer.begin) + ' ' + answer.text + '\n';
    }
    return text;
  }

  TokenRows rows_of(const TransformerModel& model, DataPart part, std::span<const std::int32_t> members) const {
    TokenRows rows = make_rows(sets().of(part), members, pad_id_, device_of(model));
    if (!has_types_) return rows;
    const std::int64_t length = rows.tokens.size(1);
    std::vector<std::int64_t> types(members.size() * static_cast<std::size_t>(length), 0);  // [rows, length]
    for (std::size_t row = 0; row < members.size(); ++row) {
      const auto first = types.begin() + static_cast<std::ptrdiff_t>(row) * length;
      std::fill(first + sets().of(part).target(members[row])[2], first + rows.lengths[row], 1);
    }
    rows.types = Tensor::from(types, {std::ssize(members), length}).to(device_of(model));
    return rows;
  }

  // The mean of the losses of begin and end; logits [rows, length, 2].
  Tensor loss_of(const Tensor& logits, DataPart part, std::span<const std::int32_t> members,
                 Reduction reduction) const {
    Tensor sum;
    for (const int side : {0, 1}) {
      std::vector<std::int64_t> places;
      for (const std::int32_t member : members) {
        places.push_back(sets().of(part).target(member)[static_cast<std::size_t>(side)]);
      }
      const Tensor targets = Tensor::from(places, {std::ssize(members)}).to(logits.device());
      const Tensor loss = cross_entropy(logits.select(2, side), targets, {.reduction = reduction});
      sum = side == 0 ? loss : add(sum, loss);
    }
    return scale(sum, 0.5);
  }

  FineTuneScores scores_of(const std::vector<BestAnswer>& best, DataPart part) const {
    double f1 = 0.0, exact = 0.0;
    for (std::size_t i = 0; i < best.size(); ++i) {
      const QuestionExample& example = examples_of(part)[i];
      const std::string_view answer =
          std::string_view(example.context)
              .substr(static_cast<std::size_t>(best[i].begin), static_cast<std::size_t>(best[i].end - best[i].begin));
      double its_f1 = 0.0, its_exact = 0.0;
      for (const AnswerSpan& expected : example.question.answers) {
        its_f1 = std::max(its_f1, answer_f1(answer, expected.text));
        its_exact = std::max(its_exact, answer_exact(answer, expected.text) ? 1.0 : 0.0);
      }
      f1 += its_f1;
      exact += its_exact;
    }
    const double percent_each = 100.0 / static_cast<double>(best.size());
    FineTuneScores scores{.score = f1 * percent_each, .scores = {}};
    scores.scores = {{"f1", f1 * percent_each}, {"exact", exact * percent_each}};
    return scores;
  }

  std::vector<Window> windows_[3] = {};  // of the parts, in the order of the sets
  std::int64_t pad_id_ = 0;
  bool has_types_ = false;
};

}  // namespace

std::unique_ptr<TrainingTask> make_answer_task(const FineTuneConfig& config) {
  return std::make_unique<AnswerTask>(config);
}

}  // namespace headway::inline v0::internal

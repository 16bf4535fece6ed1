// The next token of a text.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "headway/ops.h"
#include "text/example_files.h"
#include "training/random_words.h"
#include "training/tasks.h"
#include "training/text_stream.h"
#include "training/token_loss.h"

namespace headway::inline v0::internal {
namespace {

class LanguageModelTask : public TrainingTask {
 public:
  explicit LanguageModelTask(const FineTuneConfig& config) : config_(config), text_(read_text_parts(config)) {}

  HeadKind head() const override { return HeadKind::language_model; }
  std::vector<std::string> texts() const override { return {text_.training}; }
  bool has(DataPart part) const override { return !text_.of(part).empty(); }
  std::string digest() const override { return text_.digest(); }
  std::string describe() const override { return text_.describe(); }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    context_ = longest_text(config_, options.decoder);
    for (const DataPart part : {DataPart::training, DataPart::validation, DataPart::test}) {
      tokens_[static_cast<std::size_t>(part)] = encode_stream(tokenizer, text_.of(part));
    }
    const std::int64_t count = std::ssize(tokens_[0]);
    check(count > context_ + 1, config_.data.string(), ": has ", count, " tokens, expected more than a window of ",
          context_ + 1);
    rows_ = config_.batch_tokens > 0 ? std::max<std::int64_t>(config_.batch_tokens / context_, 1) : config_.batch;
  }

  std::int64_t batches_per_epoch() const override { return std::max<std::int64_t>(windows_per_epoch() / rows_, 1); }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    const std::int64_t epoch = index / batches_per_epoch(), first = index % batches_per_epoch() * rows_;
    if (epoch != epoch_) begin_epoch(epoch);
    std::vector<std::int64_t> starts;
    for (std::int64_t row = 0; row < rows_; ++row) {
      starts.push_back(starts_[static_cast<std::size_t>((first + row) % std::ssize(starts_))]);
    }
    const Windows windows = windows_at(DataPart::training, starts, context_, device_of(model));
    ModelInput input;
    input.tokens = windows.tokens;
    return token_loss(model.forward(input).logits, windows.labels, rows_ * context_,
                      {.label_smoothing = config_.label_smoothing});
  }

  // The mean over the whole part, cut into windows one after the other; the last one may be shorter.
  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    const std::int64_t count = std::ssize(tokens_[static_cast<std::size_t>(part)]) - 1;
    check(count > 0, "the part to evaluate has ", count + 1, " tokens, expected at least 2");
    const std::int64_t whole = count / context_, rest = count % context_;
    double sum = 0.0;
    for (std::int64_t first = 0; first < whole; first += kEvaluationRows) {
      std::vector<std::int64_t> starts;
      for (std::int64_t i = first; i < std::min(first + kEvaluationRows, whole); ++i) starts.push_back(i * context_);
      sum += loss_sum(model, windows_at(part, starts, context_, device_of(model)));
    }
    if (rest > 0) sum += loss_sum(model, windows_at(part, {whole * context_}, rest, device_of(model)));
    const double loss = sum / static_cast<double>(count);
    return {.loss = loss, .score = -loss, .scores = {}};
  }

 private:
  static constexpr std::int64_t kEvaluationRows = 16;

  struct Windows {
    Tensor tokens;  // [rows, length] int64
    Tensor labels;  // [rows, length] int64: the tokens after them
  };
  Windows windows_at(DataPart part, const std::vector<std::int64_t>& starts, std::int64_t length, Device device) const {
    const std::vector<std::int32_t>& all = tokens_[static_cast<std::size_t>(part)];
    std::vector<std::int64_t> tokens, labels;
    for (const std::int64_t start : starts) {
      const auto begin = all.begin() + start;
      tokens.insert(tokens.end(), begin, begin + length);
      labels.insert(labels.end(), begin + 1, begin + length + 1);
    }
    const Shape shape = {std::ssize(starts), length};
    return {Tensor::from(tokens, shape).to(device), Tensor::from(labels, shape).to(device)};
  }
  static double loss_sum(const TransformerModel& model, const Windows& windows) {
    ModelInput input;
    input.tokens = windows.tokens;
    return cross_entropy(model.forward(input).logits, windows.labels, {.reduction = Reduction::sum}).item();
  }

  // One window fewer than fit, so that an epoch may begin anywhere in the first one.
  std::int64_t windows_per_epoch() const { return (std::ssize(tokens_[0]) - 1) / context_ - 1; }
  // Windows of an epoch lie side by side, from a place that changes with the epoch, and come in random order.
  void begin_epoch(std::int64_t epoch) {
    RandomWords random(config_.seed, static_cast<std::uint64_t>(epoch));
    const auto offset = static_cast<std::int64_t>(random.below(static_cast<std::size_t>(context_)));
    starts_.resize(static_cast<std::size_t>(std::max<std::int64_t>(windows_per_epoch(), 1)));
    const std::int64_t last = std::ssize(tokens_[0]) - 1 - context_;
    for (std::size_t i = 0; i < starts_.size(); ++i) {
      starts_[i] = std::min(offset + static_cast<std::int64_t>(i) * context_, last);
    }
    random.shuffle(std::span(starts_));
    epoch_ = epoch;
  }

  FineTuneConfig config_;
  TextParts text_;
  std::vector<std::int32_t> tokens_[3] = {};  // of the parts
  std::int64_t context_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t epoch_ = -1;                // of `starts_`; -1: it is empty
  std::vector<std::int64_t> starts_ = {};  // of an epoch's windows
};

}  // namespace

std::unique_ptr<TrainingTask> make_language_model_task(const FineTuneConfig& config) {
  return std::make_unique<LanguageModelTask>(config);
}

}  // namespace headway::inline v0::internal

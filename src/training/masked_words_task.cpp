// Words that were masked out of a text.
#include <algorithm>

#include "base/check.h"
#include "headway/ops.h"
#include "training/random_words.h"
#include "training/span_scores.h"
#include "training/tasks.h"
#include "training/text_stream.h"
#include "training/token_loss.h"

namespace headway::inline v0::internal {
namespace {

constexpr double kMasked = 0.8;  // of the chosen tokens; half of the others become random tokens, half stay

class MaskedWordsTask : public TrainingTask {
 public:
  explicit MaskedWordsTask(const FineTuneConfig& config) : config_(config), text_(read_text_parts(config)) {}

  HeadKind head() const override { return HeadKind::language_model; }
  std::vector<std::string> texts() const override { return {text_.training}; }
  bool has(DataPart part) const override { return !text_.of(part).empty(); }
  std::string digest() const override { return text_.digest(); }
  std::string describe() const override { return text_.describe(); }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    check(tokenizer.mask_id().has_value(), "the tokenizer has no mask token");
    mask_id_ = *tokenizer.mask_id();
    vocab_size_ = options.vocab_size;
    pad_id_ = padding_of(options);
    const std::int64_t length = longest_text(config_, options.encoder);
    for (const DataPart part : {DataPart::training, DataPart::validation, DataPart::test}) {
      add_windows(tokenizer, part, length);
    }
    sets_.plan(config_);
    for (std::int64_t id = 0; id < tokenizer.size(); ++id) {
      if (tokenizer.is_special(id)) special_.push_back(id);
    }
  }

  std::int64_t batches_per_epoch() const override { return sets_.training_plan().batches_per_epoch(); }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    RandomWords random(config_.seed ^ kStream, static_cast<std::uint64_t>(index));
    const Masked batch = mask(DataPart::training, sets_.training_plan().members(index), random, device_of(model));
    return token_loss(model.forward(batch.rows.input()).logits, batch.labels, batch.rows.count,
                      {.ignore_index = kNoLabel, .label_smoothing = config_.label_smoothing});
  }

  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    BatchPlan plan = sets_.evaluation_plan(part);
    double sum = 0.0, chosen = 0.0;
    for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
      RandomWords random(kStream, static_cast<std::uint64_t>(i));  // the same words in every evaluation
      const Masked batch = mask(part, plan.members(i), random, device_of(model));
      sum += cross_entropy(model.forward(batch.rows.input()).logits, batch.labels,
                           {.ignore_index = kNoLabel, .reduction = Reduction::sum})
                 .item();
      chosen += static_cast<double>(batch.chosen);
    }
    const double loss = sum / std::max(chosen, 1.0);
    return {.loss = loss, .score = -loss, .scores = {}};
  }

 private:
  static constexpr std::uint64_t kStream = 0x6D61736B;  // apart from the stream of the batches' order

  struct Masked {
    TokenRows rows;
    Tensor labels;  // [rows, length] int64: the chosen tokens, kNoLabel elsewhere
    std::int64_t chosen = 0;
  };

  // Windows of whole lines' tokens, with the tokenizer's special tokens around each.
  void add_windows(const TextTokenizer& tokenizer, DataPart part, std::int64_t length) {
    for (const std::string_view piece : stream_pieces(text_.of(part))) {
      for (const TokenizedText& window : tokenizer.tokenize_windows(piece, {.max_length = length})) {
        if (!window.ids.empty()) sets_.of(part).add(window.ids, {{0}});
      }
    }
  }

  Masked mask(DataPart part, std::span<const std::int32_t> members, RandomWords& random, Device device) const {
    Masked batch{.rows = make_rows(sets_.of(part), members, pad_id_, Device::cpu()), .labels = {}};
    const std::int64_t length = batch.rows.tokens.size(1);
    batch.labels = Tensor::full({std::ssize(members), length}, static_cast<double>(kNoLabel), DType::int64);
    auto* const tokens = batch.rows.tokens.data<std::int64_t>();  // [rows, length]
    auto* const labels = batch.labels.data<std::int64_t>();       // [rows, length]
    for (std::int64_t row = 0; row < std::ssize(members); ++row) {
      for (std::int64_t i = row * length; i < row * length + batch.rows.lengths[static_cast<std::size_t>(row)]; ++i) {
        if (std::binary_search(special_.begin(), special_.end(), tokens[i])) continue;
        if (random.unit() >= config_.mask_share) continue;
        labels[i] = tokens[i];
        ++batch.chosen;
        const double draw = random.unit();
        if (draw < kMasked) {
          tokens[i] = mask_id_;
        } else if (draw < (1.0 + kMasked) / 2.0) {
          tokens[i] = static_cast<std::int64_t>(random.below(static_cast<std::size_t>(vocab_size_)));
        }
      }
    }
    batch.rows.tokens = batch.rows.tokens.to(device);
    batch.labels = batch.labels.to(device);
    return batch;
  }

  FineTuneConfig config_;
  TextParts text_;
  ExampleParts sets_ = {};
  std::vector<std::int64_t> special_ = {};  // ids of special tokens, in order
  std::int64_t mask_id_ = 0;
  std::int64_t vocab_size_ = 0;
  std::int64_t pad_id_ = 0;
};

}  // namespace

std::unique_ptr<TrainingTask> make_masked_words_task(const FineTuneConfig& config) {
  return std::make_unique<MaskedWordsTask>(config);
}

}  // namespace headway::inline v0::internal

// A text from a text.
#include <algorithm>

#include "base/check.h"
#include "headway/ops.h"
#include "headway/rouge.h"
#include "training/greedy_texts.h"
#include "training/labelled_parts.h"
#include "training/parts_task.h"
#include "training/tasks.h"
#include "training/token_loss.h"
#include "training/tokenize_texts.h"

namespace headway::inline v0::internal {
namespace {

class TextToTextTask : public PartsTask<LabelledText> {
 public:
  explicit TextToTextTask(const FineTuneConfig& config) : PartsTask(config, read_labelled_parts(config)) {}

  HeadKind head() const override { return HeadKind::language_model; }
  std::vector<std::string> texts() const override {
    std::vector<std::string> all;
    for (const LabelledText& example : parts().training) {
      all.push_back(text_of(example));
      all.push_back(example.label);
    }
    return all;
  }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    check(options.decoder_start_id.has_value(), "the model's config has no decoder_start_token_id");
    tokenizer_ = tokenizer;
    options_ = options;
    const TokenizeOptions source_cut{.max_length = longest_text(config(), options.encoder)};
    const TokenizeOptions target_cut{.max_length = config().max_target_length};
    for (const DataPart part : kAllParts) {
      const std::vector<LabelledText>& examples = examples_of(part);
      std::vector<std::vector<std::int64_t>> sources(examples.size()), targets(examples.size());
      for_each_text(examples.size(), [&](std::size_t i) {
        sources[i] = tokenizer.tokenize(text_of(examples[i]), source_cut).ids;
        targets[i] = tokenizer.tokenize(examples[i].label, target_cut).ids;
      });
      for (std::size_t i = 0; i < examples.size(); ++i) {
        check(!sources[i].empty() && !targets[i].empty(), "example ", i + 1, " has a side without tokens");
        sets().of(part).add(sources[i], targets[i]);
      }
    }
    sets().plan(config());
  }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    const PairBatch batch = batch_of(DataPart::training, sets().training_plan().members(index));
    return token_loss(logits_of(model, batch), batch.labels.to(device_of(model)), batch.tokens,
                      {.ignore_index = padding_of(*options_), .label_smoothing = config().label_smoothing});
  }

  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    BatchPlan plan = sets().evaluation_plan(part);
    double sum = 0.0, tokens = 0.0;
    for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
      const PairBatch batch = batch_of(part, plan.members(i));
      sum += cross_entropy(logits_of(model, batch), batch.labels.to(device_of(model)),
                           {.ignore_index = padding_of(*options_), .reduction = Reduction::sum})
                 .item();
      tokens += static_cast<double>(batch.tokens);
    }
    FineTuneScores scores{.loss = sum / tokens, .score = -sum / tokens, .scores = {}};
    const std::int64_t most = part == DataPart::test ? sets().of(part).size() : config().generate_texts;
    if (most > 0) add_rouge(scores, model, part, std::min(most, sets().of(part).size()));
    return scores;
  }

 private:
  std::string text_of(const LabelledText& example) const override { return config().prefix + example.text; }
  std::string target_text_of(const LabelledText& example) const override { return example.label; }

  PairBatch batch_of(DataPart part, std::span<const std::int32_t> members) const {
    return make_batch(sets().of(part), members, padding_of(*options_), *options_->decoder_start_id);
  }
  Tensor logits_of(const TransformerModel& model, const PairBatch& batch) const {
    ModelInput input;
    input.tokens = batch.source.to(device_of(model));
    input.lengths = batch.source_lengths;
    input.target = batch.target.to(device_of(model));
    return model.forward(input).logits;
  }

  void add_rouge(FineTuneScores& scores, const TransformerModel& model, DataPart part, std::int64_t count) const {
    std::vector<std::vector<std::int64_t>> sources;
    std::vector<std::string> references;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto source = sets().of(part).source(i);
      sources.emplace_back(source.begin(), source.end());
      references.push_back(examples_of(part)[static_cast<std::size_t>(i)].label);
    }
    std::vector<std::string> texts;
    for (const std::vector<std::int64_t>& ids : greedy_texts(model, sources, config().max_target_length)) {
      texts.push_back(tokenizer_->decode(ids));
    }
    const RougeScores rouges = rouge(texts, references, {.stemmer = true});
    scores.score = 100.0 * rouges.rouge_l.f1;
    scores.scores = {{"rouge_l", 100.0 * rouges.rouge_l.f1},
                     {"rouge1", 100.0 * rouges.rouge1.f1},
                     {"rouge2", 100.0 * rouges.rouge2.f1}};
  }

  std::optional<TextTokenizer> tokenizer_ = {};
  std::optional<TransformerModelOptions> options_ = {};
};

}  // namespace

std::unique_ptr<TrainingTask> make_text_to_text_task(const FineTuneConfig& config) {
  return std::make_unique<TextToTextTask>(config);
}

}  // namespace headway::inline v0::internal

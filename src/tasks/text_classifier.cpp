// TextClassifier: tokens, logits, scores.
#include "headway/text_classifier.h"

#include <algorithm>

#include "base/check.h"
#include "tasks/label_scores.h"
#include "tasks/packed_batches.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {

namespace internal {
namespace {

// float32 [texts, labels] on the CPU.
Tensor logits_of_texts(const TaskModel& model, const std::vector<TokenizedText>& texts, std::int64_t batch_tokens) {
  const std::int64_t labels = model.model.options().head.labels;
  Tensor logits = Tensor::empty({static_cast<std::int64_t>(texts.size()), labels});
  for_each_batch(model, texts, batch_tokens, [&](const PackedBatch& batch, const ModelResult& result) {
    const Tensor computed = on_cpu(result.logits);
    const float* row = computed.data<float>();
    for (const std::size_t text : batch.texts) {
      std::copy_n(row, labels, logits.data<float>() + static_cast<std::int64_t>(text) * labels);
      row += labels;
    }
  });
  return logits;
}

}  // namespace
}  // namespace internal

struct TextClassifier::Parts {
  explicit Parts(internal::TaskModel with_model)
      : model(std::move(with_model)),
        labels(internal::label_names(model.model.options())),
        scores(internal::scores_of_config(model.model.config(), model.model.options().head.labels)) {
    model.check_head(HeadKind::sequence, "ForSequenceClassification");
  }

  std::vector<Classification> classify(const std::vector<std::string>& texts, const std::vector<std::string>* second,
                                       const ClassifyOptions& options) const {
    internal::check(options.most >= 0, model.who, ": most is ", options.most, ", expected at least 1, or 0 for all");
    std::vector<TextNotes> notes;
    const std::vector<TokenizedText> tokens = internal::tokenize_all(model, texts, second, notes);
    const Tensor logits = internal::logits_of_texts(model, tokens, options.batch_tokens);
    std::vector<Classification> results;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      const float* const row = logits.data<float>() + i * labels.size();
      results.push_back({internal::best_labels(labels, row, options.scores.value_or(scores), options.most), notes[i]});
    }
    return results;
  }

  internal::TaskModel model;
  std::vector<std::string> labels;
  LabelScores scores;
};

TextClassifier::TextClassifier(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("TextClassifier", directory, options))) {}

TextClassifier::TextClassifier(TransformerModel model, TextTokenizer tokenizer)
    : parts_(std::make_shared<const Parts>(
          internal::TaskModel("TextClassifier", std::move(model), std::move(tokenizer)))) {}

std::vector<Classification> TextClassifier::classify(const std::vector<std::string>& texts,
                                                     const ClassifyOptions& options) const {
  return parts_->classify(texts, nullptr, options);
}

std::vector<Classification> TextClassifier::classify_pairs(const std::vector<std::string>& first,
                                                           const std::vector<std::string>& second,
                                                           const ClassifyOptions& options) const {
  internal::check(first.size() == second.size(), "TextClassifier: there are ", first.size(), " first texts and ",
                  second.size(), " second ones, expected as many");
  return parts_->classify(first, &second, options);
}

Tensor TextClassifier::logits(const std::vector<std::string>& texts, std::int64_t batch_tokens) const {
  std::vector<TextNotes> notes;
  return internal::logits_of_texts(parts_->model, internal::tokenize_all(parts_->model, texts, nullptr, notes),
                                   batch_tokens);
}

const std::vector<std::string>& TextClassifier::labels() const { return parts_->labels; }
LabelScores TextClassifier::scores() const { return parts_->scores; }
std::int64_t TextClassifier::max_length() const { return parts_->model.max_length; }
const TransformerModel& TextClassifier::model() const { return parts_->model.model; }
const TextTokenizer& TextClassifier::tokenizer() const { return parts_->model.tokenizer; }

}  // namespace headway::inline v0

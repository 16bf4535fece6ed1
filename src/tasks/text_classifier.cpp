// TextClassifier: tokens, logits, scores.
#include "headway/text_classifier.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "tasks/packed_batches.h"
#include "tasks/task_model.h"

namespace headway::inline v0 {

namespace internal {
namespace {

// problem_type of the config, as transformers' pipeline reads it.
LabelScores scores_of_config(const Json& config, std::int64_t labels) {
  const Json* const type = config.find("problem_type");
  const std::string problem = type != nullptr && type->is_string() ? type->string() : std::string();
  if (problem == "regression") return LabelScores::logits;
  const bool single = labels == 1;
  return problem == "multi_label_classification" || single ? LabelScores::sigmoid : LabelScores::softmax;
}

// logits [labels] to scores.
std::vector<double> label_scores(const float* logits, std::size_t count, LabelScores kind) {
  std::vector<double> scores(logits, logits + count);
  if (kind == LabelScores::sigmoid) {
    for (double& score : scores) score = 1.0 / (1.0 + std::exp(-score));
  } else if (kind == LabelScores::softmax && count > 0) {
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    for (double& score : scores) sum += score = std::exp(score - largest);
    for (double& score : scores) score /= sum;
  }
  return scores;
}

std::vector<LabelScore> best_labels(const std::vector<std::string>& names, const std::vector<double>& scores,
                                    std::int64_t most) {
  std::vector<LabelScore> labels;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    labels.push_back({static_cast<std::int64_t>(id), names[id], scores[id]});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  if (most > 0) labels.resize(std::min(labels.size(), static_cast<std::size_t>(most)));
  return labels;
}

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
  Parts(internal::TaskModel with_model, const internal::Json& config)
      : model(std::move(with_model)),
        labels(internal::label_names(model.model.options())),
        scores(internal::scores_of_config(config, model.model.options().head.labels)) {
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
      const std::vector<double> values = internal::label_scores(row, labels.size(), options.scores.value_or(scores));
      results.push_back({internal::best_labels(labels, values, options.most), notes[i]});
    }
    return results;
  }

  internal::TaskModel model;
  std::vector<std::string> labels;
  LabelScores scores;
};

TextClassifier::TextClassifier(const std::filesystem::path& directory, const TaskOptions& options)
    : parts_(std::make_shared<const Parts>(internal::TaskModel("TextClassifier", directory, options),
                                           internal::read_json(directory / "config.json"))) {}

TextClassifier::TextClassifier(TransformerModel model, TextTokenizer tokenizer) {
  const internal::Json config = internal::parse_json(model.config(), "config.json");
  parts_ = std::make_shared<const Parts>(internal::TaskModel("TextClassifier", std::move(model), std::move(tokenizer)),
                                         config);
}

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

// Labelled spans of a text, as tags of its tokens.
#include <algorithm>
#include <set>

#include "base/check.h"
#include "headway/ops.h"
#include "training/parts_task.h"
#include "training/span_scores.h"
#include "training/tasks.h"
#include "training/token_loss.h"
#include "training/tokenize_texts.h"

namespace headway::inline v0::internal {
namespace {

class TagTask : public PartsTask<SpanText> {
 public:
  explicit TagTask(const FineTuneConfig& config)
      : PartsTask(config, read_parts<SpanText>(config, [](const std::filesystem::path& file, const std::string& names) {
                    check(names.empty(), "parts is \"", names, "\", which is for the task classify");
                    return read_span_texts(file);
                  })) {
    std::set<std::string> names;
    for (const SpanText& example : parts().training) {
      for (const TextSpan& span : example.spans) names.insert(span.label);
    }
    labels_.assign(names.begin(), names.end());
    check(!labels_.empty(), config.data.string(), ": has no labelled spans");
  }

  HeadKind head() const override { return HeadKind::tokens; }
  std::vector<std::string> labels() const override { return tag_names(labels_); }
  std::string describe() const override {
    return PartsTask::describe() + "; " + std::to_string(labels_.size()) + " labels";
  }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    pad_id_ = padding_of(options);
    const TokenizeOptions cut{.max_length = longest_text(config(), options.encoder)};
    for (const DataPart part : kAllParts) {
      const std::vector<SpanText>& examples = examples_of(part);
      std::vector<TokenizedText> texts(examples.size());
      for_each_text(examples.size(), [&](std::size_t i) { texts[i] = tokenizer.tokenize(examples[i].text, cut); });
      for (std::size_t i = 0; i < examples.size(); ++i) {
        check(!texts[i].ids.empty(), "text \"", examples[i].text, "\" has no tokens");
        // Only the training part's labels are learned; the others' spans are compared as they are.
        sets().of(part).add(texts[i].ids, part == DataPart::training
                                              ? tags_of_spans(texts[i], examples[i].spans, labels_)
                                              : texts[i].ids);
      }
      tokens_[static_cast<std::size_t>(part)] = std::move(texts);
    }
    sets().plan(config());
  }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    const auto members = sets().training_plan().members(index);
    const ExampleSet& examples = sets().of(DataPart::training);
    const TokenRows rows = make_rows(examples, members, pad_id_, device_of(model));
    const std::int64_t length = rows.tokens.size(1);
    std::vector<std::int64_t> tags(members.size() * static_cast<std::size_t>(length), kNoLabel);  // [rows, length]
    for (std::size_t row = 0; row < members.size(); ++row) {
      const auto target = examples.target(members[row]);
      std::copy(target.begin(), target.end(), tags.begin() + static_cast<std::ptrdiff_t>(row) * length);
    }
    const Tensor targets = Tensor::from(tags, {std::ssize(members), length}).to(device_of(model));
    return token_loss(model.forward(rows.input()).logits, targets, rows.count,
                      {.ignore_index = kNoLabel, .label_smoothing = config().label_smoothing});
  }

  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    BatchPlan plan = sets().evaluation_plan(part);
    SpanCounts counts;
    double loss = 0.0, tokens = 0.0;
    for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
      const auto members = plan.members(i);
      const TokenRows rows = make_rows(sets().of(part), members, pad_id_, device_of(model));
      const Tensor logits = model.forward(rows.input()).logits.to(Device::cpu()).to(DType::float32);
      const std::vector<double> best = argmax(logits, -1).to_vector();  // [rows, length]
      for (std::size_t row = 0; row < members.size(); ++row) {
        const auto member = static_cast<std::size_t>(members[row]);
        const TokenizedText& text = tokens_[static_cast<std::size_t>(part)][member];
        const auto first = best.begin() + static_cast<std::ptrdiff_t>(row) * logits.size(1);
        const std::vector<std::int64_t> tags(first, first + std::ssize(text.ids));
        const std::vector<TextSpan>& expected = examples_of(part)[member].spans;
        counts.add(spans_of_tags(text, tags, labels_), expected);
        const Tensor targets = Tensor::from(known_tags(text, expected), {std::ssize(text.ids)});
        const Tensor its_logits = logits.select(0, static_cast<std::int64_t>(row)).slice(0, 0, std::ssize(text.ids));
        loss += cross_entropy(its_logits, targets, {.ignore_index = kNoLabel, .reduction = Reduction::sum}).item();
        tokens += static_cast<double>(text.ids.size());
      }
    }
    return {.loss = loss / tokens,
            .score = 100.0 * counts.f1(),
            .scores = {{"f1", 100.0 * counts.f1()},
                       {"precision", 100.0 * counts.precision()},
                       {"recall", 100.0 * counts.recall()}}};
  }

 private:
  std::string text_of(const SpanText& example) const override { return example.text; }
  std::string target_text_of(const SpanText& example) const override {
    std::string text;
    for (const TextSpan& span : example.spans) {
      text += span.label + ' ' + std::to_string(span.begin) + ' ' + std::to_string(span.end) + '\n';
    }
    return text;
  }
  // Tags of spans, without those whose label is not in the training data.
  std::vector<std::int64_t> known_tags(const TokenizedText& text, std::vector<TextSpan> spans) const {
    std::erase_if(spans, [&](const TextSpan& span) {
      return std::find(labels_.begin(), labels_.end(), span.label) == labels_.end();
    });
    return tags_of_spans(text, spans, labels_);
  }

  std::vector<std::string> labels_ = {};       // of spans
  std::vector<TokenizedText> tokens_[3] = {};  // of the parts' examples
  std::int64_t pad_id_ = 0;
};

}  // namespace

std::unique_ptr<TrainingTask> make_tag_task(const FineTuneConfig& config) { return std::make_unique<TagTask>(config); }

}  // namespace headway::inline v0::internal

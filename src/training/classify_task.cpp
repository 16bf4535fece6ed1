// A label of a whole text.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "headway/ops.h"
#include "training/class_weights.h"
#include "training/labelled_parts.h"
#include "training/parts_task.h"
#include "training/tasks.h"
#include "training/tokenize_texts.h"

namespace headway::inline v0::internal {
namespace {

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

class ClassifyTask : public PartsTask<LabelledText> {
 public:
  explicit ClassifyTask(const FineTuneConfig& config) : PartsTask(config, read_labelled_parts(config)) {
    std::map<std::string, std::int64_t> counts;  // of the training examples of each label
    for (const LabelledText& example : parts().training) ++counts[example.label];
    for (const auto& [label, count] : counts) numbers_.emplace(label, std::ssize(numbers_));
    weights_ = class_weights(config.class_weights, counts);
    check(config.out_of_scope.empty() || numbers_.count(config.out_of_scope) > 0, "out_of_scope is \"",
          config.out_of_scope, "\", and no training example has this label");
  }

  HeadKind head() const override { return HeadKind::sequence; }
  std::vector<std::string> labels() const override {
    std::vector<std::string> names;
    for (const auto& [label, number] : numbers_) names.push_back(label);
    return names;
  }
  std::string describe() const override {
    return PartsTask::describe() + "; " + std::to_string(numbers_.size()) + " labels";
  }

  void encode(const TextTokenizer& tokenizer, const TransformerModelOptions& options) override {
    pad_id_ = padding_of(options);
    const TokenizeOptions cut{.max_length = longest_text(config(), options.encoder)};
    for (const DataPart part : kAllParts) {
      const std::vector<LabelledText>& examples = examples_of(part);
      std::vector<std::vector<std::int64_t>> ids(examples.size());
      for_each_text(examples.size(), [&](std::size_t i) { ids[i] = tokenizer.tokenize(examples[i].text, cut).ids; });
      for (std::size_t i = 0; i < examples.size(); ++i) {
        check(!ids[i].empty(), "text \"", examples[i].text, "\" has no tokens");
        sets().of(part).add(ids[i], {{number_of(examples[i].label)}});
      }
    }
    sets().plan(config());
  }

  BatchLoss loss(const TransformerModel& model, std::int64_t index) override {
    const auto members = sets().training_plan().members(index);
    const TokenRows rows = make_rows(sets().of(DataPart::training), members, pad_id_, device_of(model));
    const std::vector<std::int64_t> labels = labels_of(DataPart::training, members);
    const Tensor logits = model.forward(rows.input()).logits;
    const double smoothing = config().label_smoothing;
    if (!weights_.empty()) {
      return {.loss = weighted_cross_entropy(logits, labels, weights_, smoothing), .tokens = rows.count};
    }
    const Tensor targets = Tensor::from(labels, {std::ssize(labels)}).to(device_of(model));
    return {.loss = cross_entropy(logits, targets, {.label_smoothing = smoothing}), .tokens = rows.count};
  }

  FineTuneScores evaluate(const TransformerModel& model, DataPart part) const override {
    BatchPlan plan = sets().evaluation_plan(part);
    Counts all, in_scope, out_of_scope;
    double loss = 0.0;
    const std::int64_t outside = config().out_of_scope.empty() ? -1 : number_of(config().out_of_scope);
    for (std::int64_t i = 0; i < plan.batches_per_epoch(); ++i) {
      const auto members = plan.members(i);
      const TokenRows rows = make_rows(sets().of(part), members, pad_id_, device_of(model));
      const Tensor logits = model.forward(rows.input()).logits.to(Device::cpu()).to(DType::float32);
      const std::vector<double> best = argmax(logits, -1).to_vector();
      for (std::size_t row = 0; row < members.size(); ++row) {
        const std::int64_t label = sets().of(part).target(members[row])[0];
        const bool right = label == static_cast<std::int64_t>(best[row]);
        all.add(right);
        (label == outside ? out_of_scope : in_scope).add(right);
      }
      const Tensor targets = Tensor::from(labels_of(part, members), {std::ssize(members)});
      loss += cross_entropy(logits, targets, {.reduction = Reduction::sum}).item();
    }
    FineTuneScores scores{.loss = loss / static_cast<double>(all.of), .score = all.share(), .scores = {}};
    scores.scores.push_back({"accuracy", all.share()});
    if (outside >= 0) {
      scores.scores.push_back({"in_scope_accuracy", in_scope.share()});
      scores.scores.push_back({"out_of_scope_recall", out_of_scope.share()});
    }
    return scores;
  }

 private:
  struct Counts {
    std::int64_t right = 0;
    std::int64_t of = 0;
    void add(bool is_right) {
      right += is_right ? 1 : 0;
      ++of;
    }
    double share() const { return percent(right, of); }
  };

  std::string text_of(const LabelledText& example) const override { return example.text; }
  std::string target_text_of(const LabelledText& example) const override { return example.label; }
  std::int64_t number_of(const std::string& label) const {
    const auto found = numbers_.find(label);
    check(found != numbers_.end(), "label \"", label, "\" occurs outside the training data alone");
    return found->second;
  }
  std::vector<std::int64_t> labels_of(DataPart part, std::span<const std::int32_t> members) const {
    std::vector<std::int64_t> labels;
    for (const std::int32_t member : members) labels.push_back(sets().of(part).target(member)[0]);
    return labels;
  }

  std::map<std::string, std::int64_t> numbers_ = {};  // of labels, in the order of their names
  std::vector<double> weights_ = {};                  // of labels, in the same order; empty: all count alike
  std::int64_t pad_id_ = 0;
};

}  // namespace

std::unique_ptr<TrainingTask> make_classify_task(const FineTuneConfig& config) {
  return std::make_unique<ClassifyTask>(config);
}

}  // namespace headway::inline v0::internal

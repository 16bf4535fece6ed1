#include "tasks/label_scores.h"

#include <algorithm>
#include <cmath>

#include "base/json.h"

namespace headway::inline v0::internal {
namespace {

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

}  // namespace

LabelScores scores_of_config(const std::string& config_json, std::int64_t labels) {
  const Json config = parse_json(config_json, "config.json");
  const Json* const type = config.find("problem_type");
  const std::string problem = type != nullptr && type->is_string() ? type->string() : std::string();
  if (problem == "regression") return LabelScores::logits;
  const bool single = labels == 1;
  return problem == "multi_label_classification" || single ? LabelScores::sigmoid : LabelScores::softmax;
}

std::vector<LabelScore> best_labels(const std::vector<std::string>& names, const float* logits, LabelScores kind,
                                    std::int64_t most) {
  const std::vector<double> scores = label_scores(logits, names.size(), kind);
  std::vector<LabelScore> labels;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    labels.push_back({static_cast<std::int64_t>(id), names[id], scores[id]});
  }
  std::stable_sort(labels.begin(), labels.end(),
                   [](const LabelScore& a, const LabelScore& b) { return a.score > b.score; });
  if (most > 0) labels.resize(std::min(labels.size(), static_cast<std::size_t>(most)));
  return labels;
}

}  // namespace headway::inline v0::internal

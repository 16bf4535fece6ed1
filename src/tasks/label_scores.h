// Logits of a classification head as labels with scores, the same for texts and pictures.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/internal_api.h"
#include "headway/text_classifier.h"
#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

// What scores are by the problem_type of the model's config, as transformers' pipeline reads it.
HEADWAY_INTERNAL_API LabelScores scores_of_config(const std::string& config_json, std::int64_t labels);

// The labels of one row of logits, one for each name, the best first; `most` of them, 0: all.
HEADWAY_INTERNAL_API std::vector<LabelScore> best_labels(const std::vector<std::string>& names, const float* logits,
                                                         LabelScores kind, std::int64_t most);

}  // namespace headway::inline v0::internal

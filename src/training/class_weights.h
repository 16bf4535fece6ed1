// Labels that count more than others in the loss of classifiers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// What FineTuneConfig::class_weights says: a weight for each label of `counts` (label to examples), in its order. Empty
// where the text is empty. "balanced" is examples / (labels * examples of the label), as scikit-learn has it; otherwise
// "label=weight,label=weight", and all others have 1.
std::vector<double> class_weights(const std::string& text, const std::map<std::string, std::int64_t>& counts);

// The mean of the rows' cross entropies by the weights of their targets: logits [rows, classes], targets int64 [rows].
Tensor weighted_cross_entropy(const Tensor& logits, const std::vector<std::int64_t>& targets,
                              const std::vector<double>& weights, double label_smoothing);

}  // namespace headway::inline v0::internal

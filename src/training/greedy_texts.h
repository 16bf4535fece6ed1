// What an encoder-decoder writes by greedy search, for validations.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

// The tokens for each source, without the start and end tokens. The model is in evaluation mode.
std::vector<std::vector<std::int64_t>> greedy_texts(const TransformerModel& model,
                                                    const std::vector<std::vector<std::int64_t>>& sources,
                                                    std::int64_t max_length);

}  // namespace headway::inline v0::internal

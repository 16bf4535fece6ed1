#include "perception/word_times.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headway::inline v0::internal {
namespace {

// The index behind either end, reflected: -1 is 1, and count is count - 2.
std::int64_t reflected(std::int64_t index, std::int64_t count) {
  if (index < 0) return -index;
  return index < count ? index : 2 * (count - 1) - index;
}

// One row of one head, filtered into `sums`.
void add_medians(const float* row, std::int64_t positions, std::int64_t width, float* sums) {
  if (positions <= width / 2) width = 1;
  std::vector<float> window(static_cast<std::size_t>(width));
  for (std::int64_t position = 0; position < positions; ++position) {
    for (std::int64_t i = 0; i < width; ++i) {
      window[static_cast<std::size_t>(i)] = row[reflected(position + i - width / 2, positions)];
    }
    const auto middle = window.begin() + static_cast<std::ptrdiff_t>(width / 2);
    std::nth_element(window.begin(), middle, window.end());
    sums[position] += *middle;
  }
}

}  // namespace

Tensor alignment_scores(const Tensor& weights, std::int64_t median_width) {
  const std::int64_t heads = weights.size(0), tokens = weights.size(1), positions = weights.size(2);
  Tensor scores = Tensor::zeros({tokens, positions});
  std::vector<float> normal(static_cast<std::size_t>(tokens * positions));  // of one head: (tokens, positions)
  const float* head = weights.data<float>();
  for (std::int64_t h = 0; h < heads; ++h, head += tokens * positions) {
    for (std::int64_t position = 0; position < positions; ++position) {
      double sum = 0.0, square = 0.0;
      for (std::int64_t token = 0; token < tokens; ++token)
        sum += static_cast<double>(head[token * positions + position]);
      const double mean = sum / static_cast<double>(tokens);
      for (std::int64_t token = 0; token < tokens; ++token) {
        const double difference = static_cast<double>(head[token * positions + position]) - mean;
        square += difference * difference;
      }
      const double deviation = std::sqrt(square / static_cast<double>(tokens));
      for (std::int64_t token = 0; token < tokens; ++token) {
        const auto i = static_cast<std::size_t>(token * positions + position);
        // Where all tokens look at a position alike it says nothing.
        normal[i] = deviation > 0.0 ? static_cast<float>((static_cast<double>(head[i]) - mean) / deviation) : 0.0F;
      }
    }
    for (std::int64_t token = 0; token < tokens; ++token) {
      add_medians(normal.data() + token * positions, positions, median_width, scores.data<float>() + token * positions);
    }
  }
  for (float& score : std::span(scores.data<float>(), static_cast<std::size_t>(tokens * positions))) {
    score /= static_cast<float>(heads);
  }
  return scores;
}

std::vector<std::int64_t> token_starts(const Tensor& scores) {
  const std::int64_t tokens = scores.size(0), positions = scores.size(1), columns = positions + 1;
  enum : unsigned char { both, token_only, position_only };
  const auto at = [columns](std::int64_t token, std::int64_t position) {
    return static_cast<std::size_t>(token * columns + position);
  };
  const auto cells = static_cast<std::size_t>((tokens + 1) * columns);
  std::vector<float> cost(cells, std::numeric_limits<float>::infinity());
  std::vector<unsigned char> step(cells, position_only);
  cost[0] = 0.0F;
  const float* values = scores.data<float>();
  for (std::int64_t position = 1; position <= positions; ++position) {
    for (std::int64_t token = 1; token <= tokens; ++token) {
      const float by_both = cost[at(token - 1, position - 1)], by_token = cost[at(token - 1, position)],
                  by_position = cost[at(token, position - 1)];
      float best = by_position;
      if (by_both < by_token && by_both < by_position) {
        best = by_both;
        step[at(token, position)] = both;
      } else if (by_token < by_both && by_token < by_position) {
        best = by_token;
        step[at(token, position)] = token_only;
      }
      cost[at(token, position)] = best - values[(token - 1) * positions + position - 1];
    }
  }
  for (std::int64_t token = 0; token <= tokens; ++token) step[at(token, 0)] = token_only;
  std::vector<std::int64_t> starts(static_cast<std::size_t>(tokens), 0);
  for (std::int64_t token = tokens, position = positions; token > 0 && position > 0;) {
    starts[static_cast<std::size_t>(token - 1)] = position - 1;  // the earliest one is set last
    const unsigned char taken = step[at(token, position)];
    if (taken != position_only) --token;
    if (taken != token_only) --position;
  }
  return starts;
}

}  // namespace headway::inline v0::internal

#include "tasks/text_pooling.h"

#include <algorithm>
#include <cmath>

namespace headway::inline v0::internal {
namespace {

// Adds weight * row to the vector.
void add_row(const float* row, float weight, float* vector, std::int64_t width) {
  for (std::int64_t i = 0; i < width; ++i) vector[i] += weight * row[i];
}

void pool_sum(const PooledTokens& tokens, std::int64_t first, TextPooling pooling, float* vector) {
  std::fill_n(vector, tokens.width, 0.0F);
  float weights = 0.0F;
  for (std::int64_t t = first; t < tokens.count; ++t) {
    const float weight = pooling == TextPooling::weighted_mean ? static_cast<float>(t + 1) : 1.0F;
    add_row(tokens.hidden + t * tokens.width, weight, vector, tokens.width);
    weights += weight;
  }
  const float divisor = pooling == TextPooling::mean_root ? std::sqrt(weights) : weights;
  for (std::int64_t i = 0; i < tokens.width; ++i) vector[i] /= divisor;
}

void pool_largest(const PooledTokens& tokens, std::int64_t first, float* vector) {
  std::copy_n(tokens.hidden + first * tokens.width, tokens.width, vector);
  for (std::int64_t t = first + 1; t < tokens.count; ++t) {
    const float* const row = tokens.hidden + t * tokens.width;
    for (std::int64_t i = 0; i < tokens.width; ++i) vector[i] = std::max(vector[i], row[i]);
  }
}

}  // namespace

void pool_tokens(const PooledTokens& tokens, const std::vector<TextPooling>& poolings, float* vector) {
  // A text that is the prompt alone is pooled as a whole.
  const std::int64_t first = tokens.skipped < tokens.count ? tokens.skipped : 0;
  for (const TextPooling pooling : poolings) {
    switch (pooling) {
      case TextPooling::first:
        std::copy_n(tokens.hidden + first * tokens.width, tokens.width, vector);
        break;
      case TextPooling::last:
        std::copy_n(tokens.hidden + (tokens.count - 1) * tokens.width, tokens.width, vector);
        break;
      case TextPooling::max:
        pool_largest(tokens, first, vector);
        break;
      case TextPooling::mean:
      case TextPooling::mean_root:
      case TextPooling::weighted_mean:
        pool_sum(tokens, first, pooling, vector);
        break;
    }
    vector += tokens.width;
  }
}

void normalize_vector(std::span<float> vector) {
  float sum = 0.0F;
  for (const float value : vector) sum += value * value;
  const float length = std::max(std::sqrt(sum), 1e-12F);
  for (float& value : vector) value /= length;
}

}  // namespace headway::inline v0::internal

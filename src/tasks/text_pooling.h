// Hidden states of tokens to one vector of each text.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headway/text_encoder.h"

namespace headway::inline v0::internal {

// The tokens of one text.
struct PooledTokens {
  const float* hidden = nullptr;  // (count, width)
  std::int64_t count = 0;         // at least 1
  std::int64_t width = 0;
  std::int64_t skipped = 0;  // tokens of the prompt at the beginning, which are not pooled
};

// Writes the poolings one after the other: vector is (poolings * width).
void pool_tokens(const PooledTokens& tokens, const std::vector<TextPooling>& poolings, float* vector);

// Scales a vector to length 1; one of zeros stays as it is.
void normalize_vector(std::span<float> vector);

}  // namespace headway::inline v0::internal

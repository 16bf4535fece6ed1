// When tokens were spoken, by what the decoder looked at: dynamic time warping as in Whisper.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// The attention of some heads over a sound: [heads, tokens, positions], normalised over the tokens of each position,
// smoothed by a median over neighbouring positions, and averaged over the heads: [tokens, positions].
Tensor alignment_scores(const Tensor& weights, std::int64_t median_width);

// The position at which each token begins on the best path through scores [tokens, positions] from the first token at
// the first position to the last at the last; a path goes on by a token, by a position or by both.
std::vector<std::int64_t> token_starts(const Tensor& scores);

}  // namespace headway::inline v0::internal

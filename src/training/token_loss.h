// The loss of a batch that has one for every token.
#pragma once

#include "headway/ops.h"
#include "headway/training.h"

namespace headway::inline v0::internal {

// The mean of the tokens' cross-entropies; `tokens` are those of the whole batch. Where sequences are cut over ranks,
// the logits are those of this rank's tokens and the labels whole: the ranks' losses and tokens add up to the batch's.
BatchLoss token_loss(const Tensor& logits, const Tensor& labels, std::int64_t tokens,
                     const CrossEntropyOptions& options);

}  // namespace headway::inline v0::internal

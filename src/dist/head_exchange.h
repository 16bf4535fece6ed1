// Exchanges between two ways of dealing out attention: some tokens with all heads, or all tokens with some heads.
#pragma once

#include "headway/sequence_parallel.h"

namespace headway::inline v0::internal {

// How heads are dealt out: evenly, or, where there are fewer than ranks, each to several neighbouring ranks.
struct HeadShares {
  std::int64_t heads = 0;
  int ranks = 1;

  std::int64_t count() const { return heads < ranks ? 1 : heads / ranks; }
  std::int64_t first(int rank) const { return heads < ranks ? rank * heads / ranks : rank * count(); }
  Tensor take(const Tensor& tensor, int rank) const { return tensor.slice(1, first(rank), first(rank) + count()); }
};

// x [batch, heads, this rank's tokens, columns] -> [batch, this rank's heads, all tokens, columns].
Tensor tokens_to_heads(const Tensor& x, const HeadShares& heads, const SequenceShares& tokens,
                       const Communicator& ranks);

// x [batch, this rank's heads, all tokens, columns] -> [batch, heads, this rank's tokens, columns] in the dtype `sums`.
// Where ranks share a head, their terms are added in the order of the ranks.
Tensor heads_to_tokens(const Tensor& x, const HeadShares& heads, const SequenceShares& tokens,
                       const Communicator& ranks, DType sums);

}  // namespace headway::inline v0::internal

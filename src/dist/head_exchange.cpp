#include "dist/head_exchange.h"

#include "dist/ring_attention.h"

namespace headway::inline v0::internal {

Tensor tokens_to_heads(const Tensor& x, const HeadShares& heads, const SequenceShares& tokens,
                       const Communicator& ranks) {
  std::vector<Tensor> parts, received;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    parts.push_back(heads.take(x, rank));
    const Shape shape = {x.size(0), heads.count(), tokens.size(rank), x.size(3)};
    received.push_back(Tensor::empty(shape, x.dtype(), x.device()));
  }
  ranks.all_to_all(parts, received);
  Tensor whole = Tensor::empty({x.size(0), heads.count(), tokens.length(), x.size(3)}, x.dtype(), x.device());
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const Tensor& share = received[static_cast<std::size_t>(rank)];
    std::int64_t row = 0;
    for (const TokenRange& range : tokens.of(rank)) {
      whole.slice(2, range.begin, range.end).copy_from(share.slice(2, row, row + range.size()));
      row += range.size();
    }
  }
  return whole;
}

Tensor heads_to_tokens(const Tensor& x, const HeadShares& heads, const SequenceShares& tokens,
                       const Communicator& ranks, DType sums) {
  const std::int64_t own = tokens.size(ranks.rank());
  std::vector<Tensor> parts, received;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    parts.push_back(tokens.take(x, rank, 2));
    received.push_back(Tensor::empty({x.size(0), heads.count(), own, x.size(3)}, x.dtype(), x.device()));
  }
  ranks.all_to_all(parts, received);
  Tensor result = Tensor::empty({x.size(0), heads.heads, own, x.size(3)}, sums, x.device());
  Tensor sum;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    add_to(sum, received[static_cast<std::size_t>(rank)], sums);
    const bool last = rank + 1 == ranks.size() || heads.first(rank + 1) != heads.first(rank);
    if (!last) continue;
    heads.take(result, rank).copy_from(sum);
    sum = Tensor();
  }
  return result;
}

}  // namespace headway::inline v0::internal

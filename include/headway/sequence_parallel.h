// Attention over a sequence that is cut over ranks: each holds its share of the tokens, and no rank all of them.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/attention.h"
#include "headway/communicator.h"
#include "headway/export.h"

namespace headway {
inline namespace v0 {

enum class SequenceLayout {
  // Rank r of n holds parts r and 2n - 1 - r of 2n: under a causal mask all ranks have the same work.
  zigzag,
  // Rank r holds the r-th of n parts.
  contiguous,
};

struct TokenRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
  friend bool operator==(const TokenRange&, const TokenRange&) = default;
};

// Which tokens of a sequence each rank holds. Parts may be uneven and empty.
class HEADWAY_API SequenceShares {
 public:
  SequenceShares() = default;  // not given
  // As even as they go, in multiples of `multiple` tokens.
  SequenceShares(std::int64_t length, int ranks, SequenceLayout layout = SequenceLayout::zigzag,
                 std::int64_t multiple = 1);
  // Ranges of every rank, in the order in which they lie in its tensors. Together they hold every token once.
  explicit SequenceShares(std::vector<std::vector<TokenRange>> ranges);

  bool defined() const { return !ranges_.empty(); }
  int ranks() const { return static_cast<int>(ranges_.size()); }
  std::int64_t length() const { return length_; }
  const std::vector<TokenRange>& of(int rank) const;
  // How many tokens a rank holds.
  std::int64_t size(int rank) const;
  // The rank's tokens of a whole tensor, along a dimension: a copy, without a gradient.
  Tensor take(const Tensor& whole, int rank, int dim) const;
  // The whole tensor from all ranks' shares, on every rank: likewise.
  Tensor gather(const Tensor& share, int dim, const Communicator& ranks) const;
  // The position of each of the rank's tokens: int64 [size(rank)].
  Tensor positions(int rank) const;
  friend bool operator==(const SequenceShares&, const SequenceShares&) = default;

 private:
  std::vector<std::vector<TokenRange>> ranges_;
  std::int64_t length_ = 0;
};

// How the ranks work together. Bytes are those of the forward, of all ranks together; the backward sends twice as many
// around the ring, and about as many again by Ulysses. Each call sends a few hundred bytes more, by which the ranks
// compare their options.
enum class SequenceMethod {
  automatic,  // ulysses where heads divide and it sends fewer bytes, else ring
  // Keys and values travel from rank to rank, each share no further than the last rank that sees any of it, while the
  // share before it is computed: memory for two shares beside the rank's own. Without limits these are
  // (ranks - 1) * bytes(all keys and values). Partial results are joined by their log-sum-exp in float32 (float64).
  // Where weights are returned, or a bias reaches 1e3 in size, a rank keeps all keys and values that have come by.
  ring,
  // Two all-to-all: every rank computes some heads over the whole sequence. The number of query heads is a multiple of
  // the ranks', and so is that of key heads, or it divides the ranks'. These are (ranks - 1) / ranks * bytes(all
  // queries, keys, values, outputs and log-sum-exps, and masks, biases and weights with a row for each query), with
  // keys and values ranks / key heads times where there are fewer heads than ranks.
  ulysses,
};

struct SequenceParallelOptions {
  // Of the queries and of the keys. By default they follow from the layout and the lengths of the ranks' tensors:
  // contiguous shares may be of any lengths, zigzag ones are those of SequenceShares(whole length, ranks).
  SequenceShares query_shares = {};
  SequenceShares key_shares = {};
  SequenceLayout layout = SequenceLayout::contiguous;
  SequenceMethod method = SequenceMethod::automatic;
};

// attention() over the ranks of a communicator. query, key and value are this rank's tokens, and so is the result. The
// options speak of the whole sequence: offsets, window, lengths, cu_*_lengths and the dropout of a position are those
// of one rank; mask and bias have this rank's query rows and all keys, in the order of the sequence. Weights come back
// for this rank's rows and all keys. Gradients of bias and sinks are this rank's part: their sum over the ranks is the
// whole. Every rank calls it with the same options; where they differ, all ranks throw the same Error.
//
// The backward is every rank's too: where one goes back through a result, all do, in the same order; otherwise they
// wait for each other.
//
// Which weights dropout drops is bit for bit the same as on one rank. Outputs and gradients are the same within
// rounding, because sums are taken in another order: their bits are the same in every run with the same shares, and at
// any number of threads. The forward by Ulysses has the bits of one rank, but for a mean of weights.
HEADWAY_API AttentionResult sequence_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                               const AttentionOptions& options, const Communicator& ranks,
                                               const SequenceParallelOptions& parallel = {});

// sequence_attention() by a ring.
HEADWAY_API AttentionResult ring_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                           const AttentionOptions& options, const Communicator& ranks,
                                           const SequenceParallelOptions& parallel = {});

// While one exists, what attends on this thread works on sequences that are cut over the ranks, so that a model trains
// on sequences whose states one machine cannot hold. Every rank makes the same calls.
//
// Layers (MultiHeadAttention, encoder and decoder layers, TransformerBlock) take this rank's tokens and give theirs;
// lengths are those of the whole sequences, masks and biases have this rank's query rows and all keys. A
// TransformerModel or TranslationModel takes the whole token ids on every rank, and its hidden states and logits are
// those of shares(length). Caches and models that read features are refused. Attention's dropout is that of one rank;
// dropout of other tensors draws on every rank by itself.
class HEADWAY_API SequenceParallelGuard {
 public:
  explicit SequenceParallelGuard(const Communicator& ranks, SequenceLayout layout = SequenceLayout::zigzag,
                                 SequenceMethod method = SequenceMethod::automatic);
  ~SequenceParallelGuard();
  SequenceParallelGuard(const SequenceParallelGuard&) = delete;
  SequenceParallelGuard& operator=(const SequenceParallelGuard&) = delete;

  // This thread's innermost guard; null where there is none, or where it has one rank.
  static const SequenceParallelGuard* current();

  const Communicator& ranks() const { return ranks_; }
  // How a sequence is cut.
  SequenceShares shares(std::int64_t length) const { return {length, ranks_.size(), layout_}; }
  SequenceParallelOptions options() const { return {.layout = layout_, .method = method_}; }

 private:
  Communicator ranks_;
  SequenceLayout layout_;
  SequenceMethod method_;
  const SequenceParallelGuard* outer_;
};

}  // namespace v0
}  // namespace headway

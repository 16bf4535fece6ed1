// Tokenized sentence pairs, and which of them are in each batch of a training run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Token ids of many pairs in one contiguous buffer.
class ExampleSet {
 public:
  // Adds a pair: ids with </s> at the end, and the target language's code in front of the source.
  void add(std::span<const std::int64_t> source, std::span<const std::int64_t> target);
  // Adds all pairs of another set at the end.
  void append_all(const ExampleSet& other);

  std::int64_t size() const { return static_cast<std::int64_t>(starts_.size()) / 2; }
  std::span<const std::int32_t> source(std::int64_t index) const { return part(2 * index); }
  std::span<const std::int32_t> target(std::int64_t index) const { return part(2 * index + 1); }

 private:
  void append(std::span<const std::int64_t> ids);
  std::span<const std::int32_t> part(std::int64_t number) const;

  std::vector<std::int32_t> ids_;    // of all sources and targets in turn
  std::vector<std::size_t> starts_;  // (2 * pairs) where each source and each target begins in `ids_`
};

// Which pairs are in which batch: pairs of similar lengths, as many as fit. The pairs of a batch and the order of
// batches change from epoch to epoch and depend on (seed, epoch) only.
class BatchPlan {
 public:
  // A batch has rows * (longest source + longest target) <= batch_tokens, or a single row.
  BatchPlan(const ExampleSet& examples, std::int64_t batch_tokens, std::uint64_t seed);

  // The same for all epochs.
  std::int64_t batches_per_epoch() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  // The pairs of batch `index`, counted from 0 over all epochs. Valid until the next call.
  std::span<const std::int32_t> members(std::int64_t index);
  // The part of all tokens that is padding.
  double padding_share() const { return padding_share_; }

 private:
  void begin_epoch(std::int64_t epoch);

  std::uint64_t seed_;
  std::int64_t epoch_ = -1;           // of `order_` and `batch_order_`; -1: they are empty
  std::vector<std::int32_t> sorted_;  // all pairs by length
  std::vector<std::int32_t> order_;   // `sorted_` with pairs of equal lengths shuffled
  std::vector<std::size_t> ties_;     // where each run of equal lengths begins in `sorted_`, and the end
  std::vector<std::size_t> starts_;   // where each batch begins in `order_`, and the end
  std::vector<std::int32_t> batch_order_;
  double padding_share_ = 0.0;
};

struct TranslationBatch {
  Tensor source;            // [rows, source_length] int64
  Tensor source_lengths;    // [rows] int64
  Tensor target;            // [rows, target_length] int64: the start token, then all labels except the last
  Tensor labels;            // [rows, target_length] int64
  std::int64_t tokens = 0;  // non-padding labels
};
// The tensors of some pairs. <pad> is the padding and also the start token of the target.
TranslationBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id);

}  // namespace headway::inline v0::internal

// Tokenized sentence pairs, and the batches that a place in training stands for.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Token ids of many pairs, kept close together.
class ExampleSet {
 public:
  // Ids with </s> at the end, and the language's code at the source's beginning.
  void add(std::span<const std::int64_t> source, std::span<const std::int64_t> target);
  // Adds all pairs of another set after the own ones.
  void append_all(const ExampleSet& other);

  std::int64_t size() const { return static_cast<std::int64_t>(starts_.size()) / 2; }
  std::span<const std::int32_t> source(std::int64_t index) const { return part(2 * index); }
  std::span<const std::int32_t> target(std::int64_t index) const { return part(2 * index + 1); }

 private:
  void append(std::span<const std::int64_t> ids);
  std::span<const std::int32_t> part(std::int64_t number) const;

  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> starts_;  // of a source, its target, the next source, ...
};

// Pairs of similar lengths in each batch, as many as fit. Which pairs meet in a batch and the order of batches change
// from epoch to epoch and follow from (seed, epoch) alone.
class BatchPlan {
 public:
  // A batch has rows * (longest source + longest target) <= batch_tokens, or one row.
  BatchPlan(const ExampleSet& examples, std::int64_t batch_tokens, std::uint64_t seed);

  // The same for all epochs.
  std::int64_t batches_per_epoch() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  // The pairs of a batch, by a count of batches over all epochs from 0 on. Valid until the next call.
  std::span<const std::int32_t> members(std::int64_t index);
  // The part of all tokens that is padding.
  double padding_share() const { return padding_share_; }

 private:
  void begin_epoch(std::int64_t epoch);

  std::uint64_t seed_;
  std::int64_t epoch_ = -1;           // that `order_` and `batch_order_` are of
  std::vector<std::int32_t> sorted_;  // all pairs by length
  std::vector<std::int32_t> order_;   // the same with pairs of equal lengths shuffled
  std::vector<std::size_t> ties_;     // where each run of equal lengths begins in `sorted_`, and the end
  std::vector<std::size_t> starts_;   // where each batch begins in `order_`, and the end
  std::vector<std::int32_t> batch_order_;
  double padding_share_ = 0.0;
};

struct TranslationBatch {
  Tensor source;            // [rows, source_length] int64
  Tensor source_lengths;    // [rows] int64
  Tensor target;            // [rows, target_length] int64: the start token, then the labels but the last
  Tensor labels;            // [rows, target_length] int64
  std::int64_t tokens = 0;  // labels that are no padding
};
// The tensors of some pairs. <pad> fills up, and decoding starts from it.
TranslationBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id);

}  // namespace headway::inline v0::internal

// Tokenized examples, and which of them are in each batch of a training run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Numbers of many examples in one contiguous buffer: a source of token ids, and a target of token ids or labels.
class ExampleSet {
 public:
  // Adds an example; neither side is empty.
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

struct ExampleLengths {
  std::int64_t source = 0;
  std::int64_t target = 0;

  bool operator==(const ExampleLengths&) const = default;
  std::int64_t sum() const { return source + target; }
};

// How large batches are: by one of these.
struct BatchSize {
  std::int64_t tokens = 0;  // rows * (longest source + longest target) is at most this, or there is a single row
  std::int64_t texts = 0;   // rows; the last batch may have fewer
};

// Which examples are in which batch: those of similar lengths. The examples of a batch and the order of batches change
// from epoch to epoch and depend on (seed, epoch) only.
class BatchPlan {
 public:
  BatchPlan(const ExampleSet& examples, const BatchSize& size, std::uint64_t seed);
  BatchPlan(const ExampleSet& examples, std::int64_t batch_tokens, std::uint64_t seed)
      : BatchPlan(examples, BatchSize{.tokens = batch_tokens}, seed) {}

  // The same for all epochs.
  std::int64_t batches_per_epoch() const { return static_cast<std::int64_t>(starts_.size()) - 1; }
  // The examples of batch `index`, counted from 0 over all epochs. Valid until the next call.
  std::span<const std::int32_t> members(std::int64_t index);
  // The part of all tokens that is padding; in batches by texts, of the first epoch.
  double padding_share() const { return padding_share_; }

 private:
  void cut_by_tokens(std::int64_t batch_tokens);
  void cut_by_texts(std::int64_t texts);
  void sort_by_length(std::span<std::int32_t> members) const;
  double measure_padding();
  void begin_epoch(std::int64_t epoch);

  std::uint64_t seed_;
  std::int64_t epoch_ = -1;  // of `order_` and `batch_order_`; -1: they are empty
  std::vector<ExampleLengths> lengths_;
  std::vector<std::int32_t> sorted_;  // all examples; in batches by tokens, sorted by length
  std::vector<std::int32_t> order_;   // `sorted_` shuffled
  std::vector<std::size_t> ties_;     // batches by tokens: where each run of equal lengths begins in `sorted_`, and the
                                      // end; only such a run is shuffled
  std::vector<std::size_t> starts_;   // where each batch begins in `order_`, and the end
  std::vector<std::int32_t> batch_order_;
  double padding_share_ = 0.0;
};

struct PairBatch {
  Tensor source;            // [rows, source_length] int64
  Tensor source_lengths;    // [rows] int64
  Tensor target;            // [rows, target_length] int64: the start token, then all labels except the last
  Tensor labels;            // [rows, target_length] int64
  std::int64_t tokens = 0;  // non-padding labels
};
// The tensors of some pairs; <pad> is the padding. Without a start token, <pad> is that of the target too.
PairBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id);
PairBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id,
                     std::int64_t start_id);

}  // namespace headway::inline v0::internal

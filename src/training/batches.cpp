// Batches by padded token count or by number of texts.
#include "training/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "training/random_words.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kSortedBatches = 32;  // batches by texts: within so many, texts are sorted by length

ExampleLengths longest_of(const ExampleLengths& a, const ExampleLengths& b) {
  return {std::max(a.source, b.source), std::max(a.target, b.target)};
}

ExampleLengths lengths_of(const ExampleSet& examples, std::int64_t index) {
  return {std::ssize(examples.source(index)), std::ssize(examples.target(index))};
}

// Orders by source length. Target lengths ascend for one source length and descend for the next, so that neighbours
// differ little.
bool comes_before(const ExampleLengths& a, const ExampleLengths& b) {
  if (a.source != b.source) return a.source < b.source;
  return a.source % 2 == 0 ? a.target < b.target : a.target > b.target;
}

}  // namespace

void ExampleSet::add(std::span<const std::int64_t> source, std::span<const std::int64_t> target) {
  check(!source.empty() && !target.empty(), "ExampleSet: a pair has ", source.size(), " and ", target.size(),
        " tokens, expected at least one on either side");
  check(size() < std::numeric_limits<std::int32_t>::max(), "there are 2^31 pairs already");
  append(source);
  append(target);
}

void ExampleSet::append_all(const ExampleSet& other) {
  for (const std::size_t start : other.starts_) starts_.push_back(ids_.size() + start);
  ids_.insert(ids_.end(), other.ids_.begin(), other.ids_.end());
}

void ExampleSet::append(std::span<const std::int64_t> ids) {
  starts_.push_back(ids_.size());
  for (const std::int64_t id : ids) ids_.push_back(static_cast<std::int32_t>(id));
}

std::span<const std::int32_t> ExampleSet::part(std::int64_t number) const {
  const auto place = static_cast<std::size_t>(number);
  const std::size_t end = place + 1 < starts_.size() ? starts_[place + 1] : ids_.size();
  return std::span(ids_).subspan(starts_[place], end - starts_[place]);
}

BatchPlan::BatchPlan(const ExampleSet& examples, const BatchSize& size, std::uint64_t seed) : seed_(seed) {
  check(examples.size() > 0, "there are no ", size.texts > 0 ? "texts" : "pairs", " to train on");
  for (std::int64_t i = 0; i < examples.size(); ++i) lengths_.push_back(lengths_of(examples, i));
  sorted_.resize(lengths_.size());
  std::iota(sorted_.begin(), sorted_.end(), 0);
  if (size.texts > 0) {
    cut_by_texts(size.texts);
  } else {
    cut_by_tokens(size.tokens);
  }
  padding_share_ = measure_padding();
}

void BatchPlan::sort_by_length(std::span<std::int32_t> members) const {
  std::stable_sort(members.begin(), members.end(), [&](std::int32_t a, std::int32_t b) {
    return comes_before(lengths_[static_cast<std::size_t>(a)], lengths_[static_cast<std::size_t>(b)]);
  });
}

void BatchPlan::cut_by_tokens(std::int64_t batch_tokens) {
  sort_by_length(sorted_);
  ExampleLengths longest, previous;
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const ExampleLengths lengths = lengths_[static_cast<std::size_t>(sorted_[i])];
    if (i == 0 || lengths != previous) ties_.push_back(i);
    previous = lengths;
    const ExampleLengths joined = longest_of(longest, lengths);
    const auto rows = static_cast<std::int64_t>(starts_.empty() ? 0 : i - starts_.back());
    if (rows > 0 && (rows + 1) * joined.sum() <= batch_tokens) {
      longest = joined;
      continue;
    }
    starts_.push_back(i);
    longest = lengths;
  }
  ties_.push_back(sorted_.size());
  starts_.push_back(sorted_.size());
}

void BatchPlan::cut_by_texts(std::int64_t texts) {
  for (std::size_t i = 0; i < sorted_.size(); i += static_cast<std::size_t>(texts)) starts_.push_back(i);
  starts_.push_back(sorted_.size());
}

double BatchPlan::measure_padding() {
  std::int64_t tokens = 0, padded = 0;
  for (std::int64_t index = 0; index < batches_per_epoch(); ++index) {
    ExampleLengths longest;
    const std::span<const std::int32_t> batch = members(index);
    for (const std::int32_t member : batch) {
      const ExampleLengths lengths = lengths_[static_cast<std::size_t>(member)];
      tokens += lengths.sum();
      longest = longest_of(longest, lengths);
    }
    padded += std::ssize(batch) * longest.sum();
  }
  return 1.0 - static_cast<double>(tokens) / static_cast<double>(padded);
}

std::span<const std::int32_t> BatchPlan::members(std::int64_t index) {
  const std::int64_t epoch = index / batches_per_epoch();
  if (epoch != epoch_) begin_epoch(epoch);
  const auto batch = static_cast<std::size_t>(batch_order_[static_cast<std::size_t>(index % batches_per_epoch())]);
  return std::span(order_).subspan(starts_[batch], starts_[batch + 1] - starts_[batch]);
}

void BatchPlan::begin_epoch(std::int64_t epoch) {
  RandomWords random(seed_, static_cast<std::uint64_t>(epoch));
  order_ = sorted_;
  if (ties_.empty()) {
    random.shuffle(std::span(order_));
    // Texts of similar lengths among some batches come together; which texts these are changes with every epoch.
    for (std::size_t batch = 0; batch + 1 < starts_.size(); batch += kSortedBatches) {
      const std::size_t end = starts_[std::min(batch + kSortedBatches, starts_.size() - 1)];
      sort_by_length(std::span(order_).subspan(starts_[batch], end - starts_[batch]));
    }
  }
  // Shuffling pairs of equal lengths leaves the shape of every batch as it is.
  for (std::size_t i = 0; i + 1 < ties_.size(); ++i) {
    random.shuffle(std::span(order_).subspan(ties_[i], ties_[i + 1] - ties_[i]));
  }
  batch_order_.resize(starts_.size() - 1);
  std::iota(batch_order_.begin(), batch_order_.end(), 0);
  random.shuffle(std::span(batch_order_));
  epoch_ = epoch;
}

PairBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id) {
  return make_batch(examples, members, pad_id, pad_id);
}

PairBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id,
                     std::int64_t start_id) {
  const std::int64_t rows = std::ssize(members);
  std::int64_t source_length = 0, target_length = 0;
  for (const std::int32_t member : members) {
    source_length = std::max(source_length, std::ssize(examples.source(member)));
    target_length = std::max(target_length, std::ssize(examples.target(member)));
  }
  PairBatch batch{.source = Tensor::full({rows, source_length}, static_cast<double>(pad_id), DType::int64),
                  .source_lengths = Tensor::empty({rows}, DType::int64),
                  .target = Tensor::full({rows, target_length}, static_cast<double>(pad_id), DType::int64),
                  .labels = Tensor::full({rows, target_length}, static_cast<double>(pad_id), DType::int64)};
  auto* source = batch.source.data<std::int64_t>();           // [rows, source_length]
  auto* lengths = batch.source_lengths.data<std::int64_t>();  // [rows]
  auto* target = batch.target.data<std::int64_t>();           // [rows, target_length]
  auto* labels = batch.labels.data<std::int64_t>();           // [rows, target_length]
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t member = members[static_cast<std::size_t>(row)];
    const auto from = examples.source(member), to = examples.target(member);
    std::copy(from.begin(), from.end(), source + row * source_length);
    std::copy(to.begin(), to.end(), labels + row * target_length);
    target[row * target_length] = start_id;
    std::copy(to.begin(), to.end() - 1, target + row * target_length + 1);
    lengths[row] = std::ssize(from);
    batch.tokens += std::ssize(to);
  }
  return batch;
}

}  // namespace headway::inline v0::internal

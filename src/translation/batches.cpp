// Batches by padded token count.
#include "translation/batches.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

// A stream of random words (SplitMix64). Shuffles of the standard library differ between implementations.
class RandomWords {
 public:
  RandomWords(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ (stream * kOdd); }

  std::uint64_t next() {
    std::uint64_t word = state_ += kOdd;
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB;
    return word ^ (word >> 31);
  }
  // 0 .. count - 1, for counts of less than 2^32.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(((next() >> 32) * count) >> 32); }

  void shuffle(std::span<std::int32_t> values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  static constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t state_;
};

struct Lengths {
  std::int64_t source = 0;
  std::int64_t target = 0;

  bool operator==(const Lengths&) const = default;
  std::int64_t sum() const { return source + target; }
};

Lengths lengths_of(const ExampleSet& examples, std::int32_t index) {
  return {std::ssize(examples.source(index)), std::ssize(examples.target(index))};
}

// Orders by source length. Target lengths ascend for one source length and descend for the next, so that neighbours
// differ little.
bool comes_before(const Lengths& a, const Lengths& b) {
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

BatchPlan::BatchPlan(const ExampleSet& examples, std::int64_t batch_tokens, std::uint64_t seed) : seed_(seed) {
  check(examples.size() > 0, "there are no pairs to train on");
  sorted_.resize(static_cast<std::size_t>(examples.size()));
  std::iota(sorted_.begin(), sorted_.end(), 0);
  std::stable_sort(sorted_.begin(), sorted_.end(), [&](std::int32_t a, std::int32_t b) {
    return comes_before(lengths_of(examples, a), lengths_of(examples, b));
  });

  std::int64_t tokens = 0, padded = 0;
  Lengths longest, previous;
  for (std::size_t i = 0; i < sorted_.size(); ++i) {
    const Lengths lengths = lengths_of(examples, sorted_[i]);
    tokens += lengths.sum();
    if (i == 0 || lengths != previous) ties_.push_back(i);
    previous = lengths;
    const Lengths joined{std::max(longest.source, lengths.source), std::max(longest.target, lengths.target)};
    const auto rows = static_cast<std::int64_t>(starts_.empty() ? 0 : i - starts_.back());
    if (rows > 0 && (rows + 1) * joined.sum() <= batch_tokens) {
      longest = joined;
      continue;
    }
    padded += rows * longest.sum();
    starts_.push_back(i);
    longest = lengths;
  }
  padded += static_cast<std::int64_t>(sorted_.size() - starts_.back()) * longest.sum();
  ties_.push_back(sorted_.size());
  starts_.push_back(sorted_.size());
  padding_share_ = 1.0 - static_cast<double>(tokens) / static_cast<double>(padded);
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
  // Shuffling pairs of equal lengths leaves the shape of every batch as it is.
  for (std::size_t i = 0; i + 1 < ties_.size(); ++i) {
    random.shuffle(std::span(order_).subspan(ties_[i], ties_[i + 1] - ties_[i]));
  }
  batch_order_.resize(starts_.size() - 1);
  std::iota(batch_order_.begin(), batch_order_.end(), 0);
  random.shuffle(batch_order_);
  epoch_ = epoch;
}

TranslationBatch make_batch(const ExampleSet& examples, std::span<const std::int32_t> members, std::int64_t pad_id) {
  const std::int64_t rows = std::ssize(members);
  std::int64_t source_length = 0, target_length = 0;
  for (const std::int32_t member : members) {
    source_length = std::max(source_length, std::ssize(examples.source(member)));
    target_length = std::max(target_length, std::ssize(examples.target(member)));
  }
  TranslationBatch batch{.source = Tensor::full({rows, source_length}, static_cast<double>(pad_id), DType::int64),
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
    std::copy(to.begin(), to.end() - 1, target + row * target_length + 1);
    lengths[row] = std::ssize(from);
    batch.tokens += std::ssize(to);
  }
  return batch;
}

}  // namespace headway::inline v0::internal

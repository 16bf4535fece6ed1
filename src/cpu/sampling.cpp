// Drawing tokens: one row after the other, in time that grows with the classes alone.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/divide.h"
#include "core/random.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"
#include "cpu/tensor_data.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr int kSamplingSlot = 0;

// A uniform number in (0, 1) that follows from the seed, the step and the sequence.
double uniform_draw(std::uint64_t seed, std::int64_t step, std::int64_t sequence) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::int64_t value) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
  };
  const auto words = philox4x32_7({low(step), high(step), low(sequence), high(sequence)}, philox_key(seed));
  return (static_cast<double>(words[0]) + 0.5) / 4294967296.0;
}

// Probabilities of one row up to a factor, the largest being 1, sorted into coarse buckets by their size so that limits
// on the largest ones need no sort of all.
class Powers {
 public:
  Powers(float* powers, std::int64_t count) : powers_(powers), count_(count) {}

  // Sets all to zero but the `most` largest and those that equal the last of these.
  void keep_largest(std::int64_t most) {
    if (most <= 0 || most >= count_) return;
    std::int64_t counts[kBuckets] = {};
    for (std::int64_t i = 0; i < count_; ++i) ++counts[bucket(powers_[i])];
    std::int64_t before = 0;
    int last = kBuckets - 1;
    for (; before + counts[last] < most; --last) before += counts[last];
    members_.clear();
    for (std::int64_t i = 0; i < count_; ++i) {
      if (bucket(powers_[i]) == last) members_.push_back(powers_[i]);
    }
    const auto nth = members_.begin() + (most - before - 1);
    std::nth_element(members_.begin(), nth, members_.end(), std::greater<>());
    drop_below(*nth);
  }

  // Sets all to zero but the fewest largest ones whose sum reaches `share` of the whole; of equal ones the first stay.
  void keep_share(double share) {
    if (share >= 1) return;
    double sums[kBuckets] = {};
    double total = 0;
    for (std::int64_t i = 0; i < count_; ++i) {
      sums[bucket(powers_[i])] += powers_[i];
      total += powers_[i];
    }
    const double wanted = share * total;
    double before = 0;
    int last = kBuckets - 1;
    for (; last > 0 && before + sums[last] < wanted; --last) before += sums[last];
    members_.clear();
    for (std::int64_t i = 0; i < count_; ++i) {
      if (bucket(powers_[i]) == last) members_.push_back(powers_[i]);
    }
    std::sort(members_.begin(), members_.end(), std::greater<>());
    std::size_t kept = 0;
    while (kept < members_.size() && before < wanted) before += members_[kept++];
    if (kept == 0 && last == kBuckets - 1) kept = 1;  // the largest always stays
    if (kept == 0) return drop_below(lower_limit(last + 1));
    const float limit = members_[kept - 1];
    auto equal = std::count(members_.begin(), members_.begin() + static_cast<std::ptrdiff_t>(kept), limit);
    for (std::int64_t i = 0; i < count_; ++i) {
      if (powers_[i] < limit || (powers_[i] == limit && equal-- <= 0)) powers_[i] = 0;
    }
  }

  void drop_below(float limit) {
    for (std::int64_t i = 0; i < count_; ++i) {
      if (powers_[i] < limit) powers_[i] = 0;
    }
  }

  // The first index at which the sum so far exceeds u times the whole; -1 where nothing is left.
  std::int64_t draw(double u) const {
    double total = 0;
    for (std::int64_t i = 0; i < count_; ++i) total += powers_[i];
    double sum = 0;
    std::int64_t last = -1;
    for (std::int64_t i = 0; i < count_; ++i) {
      if (!(powers_[i] > 0)) continue;
      last = i;
      sum += powers_[i];
      if (sum > u * total) break;
    }
    return last;
  }

 private:
  // The exponent and three bits of the mantissa: 1 has the last one.
  static constexpr int kShift = 20;
  static constexpr int kBuckets = (127 << 3) + 1;
  static int bucket(float power) {
    return std::min(static_cast<int>(std::bit_cast<std::uint32_t>(power) >> kShift), kBuckets - 1);
  }
  static float lower_limit(int bucket) { return std::bit_cast<float>(static_cast<std::uint32_t>(bucket) << kShift); }

  float* powers_;  // (count) in [0, 1]
  std::int64_t count_;
  std::vector<float> members_;
};

void sample_row(const SampleTask& task, std::int64_t row) {
  const std::int64_t classes = task.logits.size(1);
  const std::byte* logits = row_of(task.logits, row);
  const DType dtype = task.logits.dtype();
  const std::int64_t blocks = divide_up(classes, kLogitBlock);
  std::byte* memory = thread_scratch(kSamplingSlot, static_cast<std::size_t>(classes) * sizeof(float) + 64 +
                                                        static_cast<std::size_t>(blocks) * sizeof(double));
  auto* powers = reinterpret_cast<float*>(memory);
  std::byte* maxima = memory + (static_cast<std::size_t>(classes) * sizeof(float) + 63) / 64 * 64;
  double largest = -INFINITY, logsumexp = 0;
  const auto look = [&]<typename Real>(Real) {
    Real sum = 0;
    decoding_kernels().logit_row(
        {.dtype = dtype, .classes = classes, .logits = logits, .maxima = maxima, .logsumexp = &sum});
    const Real* values = reinterpret_cast<const Real*>(maxima);
    largest = static_cast<double>(*std::max_element(values, values + blocks));
    logsumexp = static_cast<double>(sum);
  };
  dtype == DType::float64 ? look(double()) : look(float());
  std::int64_t token = -1;
  if (std::isfinite(logsumexp)) {
    decoding_kernels().power_row({.dtype = dtype,
                                  .classes = classes,
                                  .logits = logits,
                                  .largest = largest,
                                  .factor = 1 / task.rule.temperature,
                                  .powers = powers});
    Powers kept(powers, classes);
    kept.keep_largest(task.rule.top_k);
    kept.keep_share(task.rule.top_p);
    if (task.rule.min_p > 0) kept.drop_below(static_cast<float>(task.rule.min_p));
    token = kept.draw(uniform_draw(task.rule.seed, *tensor_data<const std::int64_t>(task.step),
                                   tensor_data<const std::int64_t>(task.sequences)[row]));
  }
  tensor_data<std::int64_t>(task.top.tokens)[row] = token;
  tensor_data<float>(task.top.logits)[row] =
      token < 0 ? -std::numeric_limits<float>::infinity()
                : static_cast<float>(task.logits.select(0, row).slice(0, token, token + 1).item());
  tensor_data<float>(task.top.logsumexp)[row] = static_cast<float>(logsumexp);
}

}  // namespace

void CpuBackend::sample_tokens(const SampleTask& task) {
  parallel_for(task.logits.size(0), [&](std::int64_t row, int) { sample_row(task, row); });
}

}  // namespace headway::inline v0::internal::cpu

// Drawing tokens: a block per row. Probabilities are added up as whole numbers (multiples of 2^-40 of the largest), so
// that the order of sums does not matter.
#include <cstdint>

#include "core/random.h"
#include "cuda/backend.h"
#include "cuda/reduce.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kSampleThreads = 1024;
constexpr int kSampleWarps = kSampleThreads / kWarp;
constexpr int kDigits = 256;  // powers are searched by their bits, eight at a time
using Whole = unsigned long long;

template <typename T>
struct SampleArguments {
  const T* logits;                // (rows, classes)
  float* powers;                  // (rows, classes): exp((logit - largest) / temperature)
  const std::int64_t* sequences;  // (rows)
  const std::int64_t* step;
  std::int64_t* tokens;  // (rows)
  float* values;         // (rows)
  float* logsumexp;      // (rows)
  std::int64_t classes, top_k;
  Compute<T> inverse_temperature;
  double top_p;
  float min_p;
  std::uint64_t seed;
};

__device__ Whole whole_of(float power) { return static_cast<Whole>(power * 1099511627776.0f); }

// Which powers are kept: those above the limit, and of those that equal it the first `equal`.
struct Kept {
  float limit = 0;
  std::int64_t equal = 0;
};

// Sums by the next eight bits of powers, from which a limit is found digit by digit.
struct DigitSums {
  Whole counts[kDigits];
  Whole sums[kDigits];
};

// The power at which the largest ones, added up from the largest on, reach `wanted`: their number, or their sum where
// `by_sum`. All threads of the block call it; only powers of at least `least` count.
__device__ Kept find_limit(const float* powers, std::int64_t classes, float least, bool by_sum, double wanted,
                           DigitSums& digits) {
  __shared__ unsigned chosen;
  __shared__ Whole before;
  unsigned prefix = 0;
  if (threadIdx.x == 0) before = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kDigits; i += kSampleThreads) {
      digits.counts[i] = 0;
      digits.sums[i] = 0;
    }
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < classes; i += kSampleThreads) {
      const unsigned bits = __float_as_uint(powers[i]);
      if (powers[i] < least || (shift < 24 && bits >> (shift + 8) != prefix)) continue;
      atomicAdd(&digits.counts[bits >> shift & 0xFF], Whole{1});
      if (by_sum) atomicAdd(&digits.sums[bits >> shift & 0xFF], whole_of(powers[i]));
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      const Whole* amounts = by_sum ? digits.sums : digits.counts;
      int digit = kDigits - 1, last = -1;  // the last one that has any
      for (; digit >= 0; --digit) {
        if (digits.counts[digit] == 0) continue;
        last = digit;
        if (static_cast<double>(before + amounts[digit]) >= wanted) break;
        before += amounts[digit];
      }
      if (digit < 0) before -= amounts[last];  // not reached: the smallest is the limit
      chosen = static_cast<unsigned>(last);
    }
    __syncthreads();
    prefix = prefix << 8 | chosen;
  }
  Kept kept = {.limit = __uint_as_float(prefix)};
  const Whole amount = by_sum ? whole_of(kept.limit) : 1;
  const double missing = wanted - static_cast<double>(before);
  const Whole all = digits.counts[prefix & 0xFF];
  kept.equal = static_cast<std::int64_t>(all);
  if (by_sum && amount > 0) {
    const double needed = ceil(missing / static_cast<double>(amount));
    if (needed < static_cast<double>(all)) kept.equal = needed < 1 ? 1 : static_cast<std::int64_t>(needed);
  }
  return kept;
}

// What one run of classes adds up to.
struct RunSum {
  Whole above = 0;  // of powers above the limit
  Whole equal = 0;  // the number of those that equal it
};

// The draw of one row.
class RowDraw {
 public:
  __device__ RowDraw(const float* powers, std::int64_t classes, Kept kept, float least)
      : powers_(powers), classes_(classes), kept_(kept), least_(least) {
    run_ = (classes + kSampleWarps - 1) / kSampleWarps;
  }

  // The token, in thread 0. A warp sums up a run of classes, thread 0 finds the run, its warp the token.
  __device__ std::int64_t token(double u) {
    __shared__ RunSum runs[kSampleWarps];
    __shared__ int chosen_run;
    __shared__ double left;                // of the sum, in the chosen run
    __shared__ std::int64_t equal, found;  // equal ones that are kept in it
    const int warp = static_cast<int>(threadIdx.x) / kWarp, lane = static_cast<int>(threadIdx.x) % kWarp;
    const RunSum own = sum_of_run(warp);
    if (lane == 0) runs[warp] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
      found = -1;
      chosen_run = -1;
      const Whole amount = kept_.limit >= least_ ? whole_of(kept_.limit) : 0;
      const auto kept_of = [&](int run, std::int64_t before) {
        const std::int64_t rest = kept_.equal - before, here = static_cast<std::int64_t>(runs[run].equal);
        return rest < 0 ? 0 : (rest < here ? rest : here);
      };
      Whole total = 0;
      std::int64_t seen = 0;
      for (int run = 0; run < kSampleWarps; ++run) {
        total += runs[run].above + static_cast<Whole>(kept_of(run, seen)) * amount;
        seen += static_cast<std::int64_t>(runs[run].equal);
      }
      const double target = u * static_cast<double>(total);
      Whole sum = 0;
      seen = 0;
      for (int run = 0; run < kSampleWarps; ++run) {
        const Whole here = runs[run].above + static_cast<Whole>(kept_of(run, seen)) * amount;
        if (here > 0 && (static_cast<double>(sum + here) > target || sum + here == total)) {
          chosen_run = run;
          left = target - static_cast<double>(sum);
          equal = kept_of(run, seen);
          break;
        }
        sum += here;
        seen += static_cast<std::int64_t>(runs[run].equal);
      }
    }
    __syncthreads();
    if (warp == chosen_run) {
      const std::int64_t token = token_of_run(warp, left, equal);
      if (lane == 0) found = token;
    }
    __syncthreads();
    return found;
  }

 private:
  __device__ std::int64_t end_of(int run) const {
    const std::int64_t end = (run + 1) * run_;
    return end < classes_ ? end : classes_;
  }

  __device__ RunSum sum_of_run(int run) const {
    RunSum sum;
    for (std::int64_t i = run * run_ + threadIdx.x % kWarp; i < end_of(run); i += kWarp) {
      const float power = powers_[i];
      if (power > kept_.limit && power >= least_) sum.above += whole_of(power);
      if (power == kept_.limit) ++sum.equal;
    }
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
      sum.above += __shfl_xor_sync(0xFFFFFFFF, sum.above, distance);
      sum.equal += __shfl_xor_sync(0xFFFFFFFF, sum.equal, distance);
    }
    return sum;
  }

  // The first token of a run at which the sum exceeds `left`, or else the last that counts; by a warp.
  __device__ std::int64_t token_of_run(int run, double left, std::int64_t equal) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    Whole sum = 0;
    std::int64_t last = -1, seen = 0;
    for (std::int64_t first = run * run_; first < end_of(run); first += kWarp) {
      const std::int64_t i = first + lane;
      const float power = i < end_of(run) ? powers_[i] : -1.0f;
      const unsigned equals = __ballot_sync(0xFFFFFFFF, power == kept_.limit);
      const std::int64_t place = seen + __popc(equals & ((1u << lane) - 1));
      const bool counts =
          power >= least_ && (power > kept_.limit || (power == kept_.limit && place < equal)) && whole_of(power) > 0;
      Whole up_to = counts ? whole_of(power) : 0;
#pragma unroll
      for (int distance = 1; distance < kWarp; distance *= 2) {
        const Whole other = __shfl_up_sync(0xFFFFFFFF, up_to, distance);
        if (lane >= distance) up_to += other;
      }
      const unsigned counted = __ballot_sync(0xFFFFFFFF, counts);
      const unsigned reached = __ballot_sync(0xFFFFFFFF, counts && static_cast<double>(sum + up_to) > left);
      if (reached) return first + __ffs(static_cast<int>(reached)) - 1;
      if (counted) last = first + 31 - __clz(static_cast<int>(counted));
      sum += __shfl_sync(0xFFFFFFFF, up_to, kWarp - 1);
      seen += __popc(equals);
    }
    return last;
  }

  const float* powers_;  // (classes)
  std::int64_t classes_, run_;
  Kept kept_;
  float least_;
};

__device__ double uniform_draw(std::uint64_t seed, std::int64_t step, std::int64_t sequence) {
  const auto low = [](std::int64_t value) { return static_cast<std::uint32_t>(value); };
  const auto high = [](std::int64_t value) {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> 32);
  };
  const auto words = philox4x32_7({low(step), high(step), low(sequence), high(sequence)}, philox_key(seed));
  return (static_cast<double>(words[0]) + 0.5) / 4294967296.0;
}

template <typename T>
__global__ void __launch_bounds__(kSampleThreads) sample_kernel(const __grid_constant__ SampleArguments<T> a) {
  using Real = Compute<T>;
  __shared__ DigitSums digits;
  let_next_start();
  wait_for_previous();
  const std::int64_t row = blockIdx.x;
  const T* logits = a.logits + row * a.classes;
  float* powers = a.powers + row * a.classes;
  const PowerSum<Real> all = power_sum_row<kSampleThreads, 1>(logits, a.classes);
  const Real logsumexp = all.largest + ::log(all.sum);
  std::int64_t token = -1;
  if (isfinite(logsumexp)) {
    for (std::int64_t i = threadIdx.x; i < a.classes; i += kSampleThreads) {
      powers[i] = static_cast<float>(::exp((to_compute(logits[i]) - all.largest) * a.inverse_temperature));
    }
    __syncthreads();
    // The limits one after the other: each looks at what the one before has kept.
    float least = 0;
    Kept kept = {.limit = -1.0f};
    if (a.top_k > 0 && a.top_k < a.classes) {
      kept = find_limit(powers, a.classes, 0.0f, false, static_cast<double>(a.top_k), digits);
      least = kept.limit;
    }
    if (a.top_p < 1) {
      Whole sum = 0;
      for (std::int64_t i = threadIdx.x; i < a.classes; i += kSampleThreads) {
        if (powers[i] >= least) sum += whole_of(powers[i]);
      }
      __syncthreads();  // the digits of the search before have been read
      if (threadIdx.x == 0) digits.counts[0] = 0;
      __syncthreads();
      atomicAdd(&digits.counts[0], sum);
      __syncthreads();
      const double wanted = a.top_p * static_cast<double>(digits.counts[0]);
      kept = find_limit(powers, a.classes, least, true, wanted, digits);
    }
    if (a.min_p > least) least = a.min_p;
    __syncthreads();
    token = RowDraw(powers, a.classes, kept, least).token(uniform_draw(a.seed, *a.step, a.sequences[row]));
  }
  if (threadIdx.x != 0) return;
  a.tokens[row] = token;
  a.values[row] = token < 0 ? -INFINITY : static_cast<float>(to_compute(logits[token]));
  a.logsumexp[row] = static_cast<float>(logsumexp);
}

}  // namespace

void CudaBackend::sample_tokens(const SampleTask& task) {
  const OnGpu here = on_gpu();
  const std::int64_t rows = task.logits.size(0), classes = task.logits.size(1);
  if (rows == 0) return;
  const DeviceBuffer powers(static_cast<std::size_t>(rows * classes) * sizeof(float));
  dispatch_elements(task.logits.dtype(), [&]<typename T>() {
    const SampleArguments<T> a = {.logits = static_cast<const T*>(task.logits.raw_data()),
                                  .powers = powers.as<float>(),
                                  .sequences = static_cast<const std::int64_t*>(task.sequences.raw_data()),
                                  .step = static_cast<const std::int64_t*>(task.step.raw_data()),
                                  .tokens = static_cast<std::int64_t*>(task.top.tokens.raw_data()),
                                  .values = static_cast<float*>(task.top.logits.raw_data()),
                                  .logsumexp = static_cast<float*>(task.top.logsumexp.raw_data()),
                                  .classes = classes,
                                  .top_k = task.rule.top_k,
                                  .inverse_temperature = static_cast<Compute<T>>(1 / task.rule.temperature),
                                  .top_p = task.rule.top_p,
                                  .min_p = static_cast<float>(task.rule.min_p),
                                  .seed = task.rule.seed};
    launch_step({.name = "sample_kernel", .grid = dim3(static_cast<unsigned>(rows)), .threads = kSampleThreads},
                sample_kernel<T>, a);
  });
}

}  // namespace headway::inline v0::internal::cuda

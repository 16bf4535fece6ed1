// Other sampling rates by a windowed sinc. With to / from = up / down in lowest terms, output i lies at input
// i * down / up, so that there are `up` sets of weights, one for each phase.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "base/divide.h"
#include "core/thread_pool.h"
#include "headway/audio.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::int64_t kHighestRate = 1 << 20;
constexpr std::int64_t kMostGrowth = 1024;
constexpr std::int64_t kMostResampled = std::int64_t{1} << 29;
constexpr std::int64_t kOutputsOfTask = 4096;
constexpr std::int64_t kMostStoredWeights = std::int64_t{1} << 20;

// A Kaiser window of this shape attenuates by 88 dB; over this many zeros of the sinc on each side its transition takes
// 0.11 of the highest frequency, so that the middle of the transition is put below that by half of it.
constexpr double kKaiserShape = 9.0;
constexpr double kZeros = 48.0;
constexpr double kCutoff = 0.945;

// The modified Bessel function of the first kind, of order 0.
double bessel(double x) {
  double sum = 1.0;
  double term = 1.0;
  for (int k = 1; term > 1e-18 * sum; ++k) {
    term *= (x / (2.0 * k)) * (x / (2.0 * k));
    sum += term;
  }
  return sum;
}

// The windowed sinc at kTableSteps places between two zeros, read with linear interpolation: 130 dB below the signal.
constexpr std::int64_t kTableSteps = 2048;
class SincTable {
 public:
  SincTable() {
    const double scale = 1.0 / bessel(kKaiserShape);
    for (std::size_t i = 0; i < kSize; ++i) {
      const double x = static_cast<double>(i) / kTableSteps;
      const double part = std::min(x / kZeros, 1.0);
      const double angle = std::numbers::pi * x;
      const double sinc = i == 0 ? 1.0 : std::sin(angle) / angle;
      values_[i] = sinc * scale * bessel(kKaiserShape * std::sqrt(1.0 - part * part));
    }
  }
  // x >= 0 in zeros of the sinc
  double operator()(double x) const {
    const double place = x * kTableSteps;
    const auto below = static_cast<std::size_t>(place);
    if (below + 1 >= kSize) return 0.0;
    return values_[below] + (place - static_cast<double>(below)) * (values_[below + 1] - values_[below]);
  }

 private:
  static constexpr std::size_t kSize = static_cast<std::size_t>(kZeros) * kTableSteps + 2;
  std::array<double, kSize> values_;
};

class Resampler {
 public:
  Resampler(std::int64_t from, std::int64_t to)
      : up_(to / std::gcd(from, to)),
        down_(from / std::gcd(from, to)),
        // Zeros of the sinc in one input sample: the lower rate says what can be kept.
        density_(kCutoff * std::min(1.0, static_cast<double>(to) / static_cast<double>(from))),
        side_(static_cast<std::int64_t>(std::ceil(kZeros / density_))),
        taps_(2 * side_ + 1) {
    if (up_ > kMostStoredWeights / taps_) return;
    weights_.resize(static_cast<std::size_t>(up_ * taps_));
    parallel_for(up_, [&](std::int64_t phase, int) { fill(phase, weights_.data() + phase * taps_); });
  }

  // Outputs [first, last) of samples [length].
  void apply(const float* samples, std::int64_t length, std::int64_t first, std::int64_t last, float* output) const {
    std::vector<double> own(weights_.empty() ? static_cast<std::size_t>(taps_) : 0);
    for (std::int64_t i = first; i < last; ++i) {
      const std::int64_t centre = i * down_ / up_;
      const std::int64_t phase = i * down_ % up_;
      if (weights_.empty()) fill(phase, own.data());
      const double* weights = weights_.empty() ? own.data() : weights_.data() + phase * taps_;
      // Weight k is of sample centre - side + k; there is silence before the first sample and after the last.
      const std::int64_t begin = std::max<std::int64_t>(0, side_ - centre);
      const std::int64_t end = std::min(taps_, length - centre + side_);
      const float* place = samples + (centre - side_);
      double sum = 0.0;
      for (std::int64_t k = begin; k < end; ++k) sum += weights[k] * static_cast<double>(place[k]);
      output[i] = static_cast<float>(sum);
    }
  }

 private:
  // The weights [taps] of outputs at `phase` / up after an input sample. Their sum is 1, so that a constant stays.
  void fill(std::int64_t phase, double* weights) const {
    static const SincTable sinc;
    const double offset = static_cast<double>(phase) / static_cast<double>(up_);
    double sum = 0.0;
    for (std::int64_t k = 0; k < taps_; ++k) {
      weights[k] = sinc(std::abs(static_cast<double>(k - side_) - offset) * density_);
      sum += weights[k];
    }
    for (std::int64_t k = 0; k < taps_; ++k) weights[k] /= sum;
  }

  std::int64_t up_, down_;
  double density_;
  std::int64_t side_, taps_;
  std::vector<double> weights_;  // [up, taps], or empty where they would be too many
};

}  // namespace
}  // namespace internal

Tensor resample(const Tensor& samples, std::int64_t from, std::int64_t to) {
  using namespace internal;
  check(samples.defined() && samples.rank() == 1, "resample: samples must be [length], not ", described(samples));
  check(from >= 1 && from <= kHighestRate, "resample: from is ", from, ", expected 1 to ", kHighestRate);
  check(to >= 1 && to <= kHighestRate, "resample: to is ", to, ", expected 1 to ", kHighestRate);
  check(to / kMostGrowth <= from, "resample: from ", from, " to ", to, " Hz is more than ", kMostGrowth,
        " times as many");
  const Tensor input = plain_values(samples);
  const std::int64_t length = input.size(0);
  if (from == to || length == 0) return input;
  check(length <= kMostResampled * from / to, "resample: ", length, " samples from ", from, " to ", to,
        " Hz would be more than ", kMostResampled);
  const Resampler resampler(from, to);
  const Tensor output = Tensor::empty({divide_up(length * to, from)});
  parallel_for(divide_up(output.size(0), kOutputsOfTask), [&](std::int64_t task, int) {
    const std::int64_t first = task * kOutputsOfTask;
    resampler.apply(input.data<const float>(), length, first, std::min(first + kOutputsOfTask, output.size(0)),
                    output.data<float>());
  });
  return output;
}

}  // namespace headway::inline v0

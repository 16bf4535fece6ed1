// The log-mel spectrogram of Whisper's models. Spectra are computed in float64, whose noise lies below the floor of the
// logarithm.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <kissfft/kissfft.hh>
#include <limits>
#include <numbers>
#include <vector>

#include "base/check.h"
#include "base/divide.h"
#include "core/thread_pool.h"
#include "headway/audio.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr double kWhisperMaxFrequency = 8000.0;
constexpr double kFloor = 1e-10;  // of the power, before the logarithm
constexpr float kRange = 8.0f;    // powers of ten below the largest that are kept
constexpr std::int64_t kFramesOfTask = 64;
constexpr std::int64_t kMostWindow = 1 << 16;
constexpr std::int64_t kMostBins = 1024;
constexpr std::int64_t kMostFeatures = std::int64_t{1} << 31;

// Slaney's mel scale: linear up to 1000 Hz, which is mel 15, then 27 mels for a factor of 6.4.
constexpr double kLinearHertz = 200.0 / 3.0;
constexpr double kBreakHertz = 1000.0;
constexpr double kBreakMel = 15.0;
const double kLogStep = std::log(6.4) / 27.0;

double mel_of(double hertz) {
  return hertz < kBreakHertz ? hertz / kLinearHertz : kBreakMel + std::log(hertz / kBreakHertz) / kLogStep;
}
double hertz_of(double mel) {
  return mel < kBreakMel ? mel * kLinearHertz : kBreakHertz * std::exp(kLogStep * (mel - kBreakMel));
}

// A triangle over frequencies: its weights from frequency `first` on.
struct MelFilter {
  std::int64_t first = 0;
  std::vector<double> weights;
};

std::vector<MelFilter> mel_filters(const LogMelOptions& options, double max_frequency) {
  const std::int64_t frequencies = options.window / 2 + 1;
  const std::int64_t highest = options.rate / 2;  // whole, as in Transformers
  const double step = static_cast<double>(highest) / static_cast<double>(frequencies - 1);
  const double mel_step = mel_of(max_frequency) / static_cast<double>(options.bins + 1);
  std::vector<MelFilter> filters(static_cast<std::size_t>(options.bins));
  for (std::int64_t bin = 0; bin < options.bins; ++bin) {
    const double low = hertz_of(mel_step * static_cast<double>(bin));
    const double middle = hertz_of(mel_step * static_cast<double>(bin + 1));
    const double high = hertz_of(mel_step * static_cast<double>(bin + 2));
    MelFilter& filter = filters[static_cast<std::size_t>(bin)];
    for (std::int64_t i = 0; i < frequencies; ++i) {
      const double hertz = step * static_cast<double>(i);
      const double height = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
      if (height <= 0.0) continue;
      if (filter.weights.empty()) filter.first = i;
      filter.weights.push_back(height * 2.0 / (high - low));  // every filter has the same area
    }
  }
  return filters;
}

// Samples beyond the ends: those inside, mirrored at the first and the last as often as is needed.
std::int64_t mirrored(std::int64_t index, std::int64_t length) {
  if (length == 1) return 0;
  const std::int64_t period = 2 * (length - 1);
  const std::int64_t place = (index % period + period) % period;
  return place < length ? place : period - place;
}

// What frames are computed by; one object for each thread, since kissfft keeps buffers.
class PowerSpectrum {
 public:
  explicit PowerSpectrum(std::int64_t window)
      : size_(static_cast<std::size_t>(window)),
        transform_(size_ % 2 == 0 ? size_ / 2 : size_, false),
        hann_(size_),
        real_(size_),
        spectrum_(size_) {
    for (std::size_t i = 0; i < size_; ++i) {
      const double angle = 2.0 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(size_);
      hann_[i] = 0.5 - 0.5 * std::cos(angle);
    }
  }

  // samples [length] around `centre` -> power [window / 2 + 1]
  void compute(const float* samples, std::int64_t length, std::int64_t centre, std::vector<double>& power) {
    const std::int64_t first = centre - static_cast<std::int64_t>(size_ / 2);
    for (std::size_t i = 0; i < size_; ++i) {
      const std::int64_t index = first + static_cast<std::int64_t>(i);
      const bool is_inside = index >= 0 && index < length;
      real_[i] = hann_[i] * static_cast<double>(samples[is_inside ? index : mirrored(index, length)]);
    }
    power.resize(size_ / 2 + 1);
    if (size_ % 2 == 0) {
      transform_.transform_real(real_.data(), spectrum_.data());
      power[0] = spectrum_[0].real() * spectrum_[0].real();
      power[size_ / 2] = spectrum_[0].imag() * spectrum_[0].imag();
      for (std::size_t i = 1; i < size_ / 2; ++i) power[i] = std::norm(spectrum_[i]);
    } else {
      const std::vector<std::complex<double>> values(real_.begin(), real_.end());
      transform_.transform(values.data(), spectrum_.data());
      for (std::size_t i = 0; i <= size_ / 2; ++i) power[i] = std::norm(spectrum_[i]);
    }
  }

 private:
  std::size_t size_;
  kissfft<double> transform_;
  std::vector<double> hann_, real_;
  std::vector<std::complex<double>> spectrum_;
};

// The logarithms of all filters of all frames into features [bins, frames].
void fill_logarithms(const Tensor& samples, const LogMelOptions& options, const std::vector<MelFilter>& filters,
                     const Tensor& features) {
  const std::int64_t frames = features.size(1);
  float* const values = features.data<float>();
  parallel_for(divide_up(frames, kFramesOfTask), [&](std::int64_t task, int) {
    PowerSpectrum spectrum(options.window);
    std::vector<double> power;
    const std::int64_t last = std::min(frames, (task + 1) * kFramesOfTask);
    for (std::int64_t frame = task * kFramesOfTask; frame < last; ++frame) {
      spectrum.compute(samples.data<const float>(), samples.size(0), frame * options.hop, power);
      for (std::size_t bin = 0; bin < filters.size(); ++bin) {
        const MelFilter& filter = filters[bin];
        double sum = 0.0;
        for (std::size_t i = 0; i < filter.weights.size(); ++i) {
          sum += filter.weights[i] * power[static_cast<std::size_t>(filter.first) + i];
        }
        values[static_cast<std::int64_t>(bin) * frames + frame] = static_cast<float>(std::log10(std::max(sum, kFloor)));
      }
    }
  });
}

void check_log_mel(const Tensor& samples, const LogMelOptions& options) {
  check(samples.defined() && samples.rank() == 1, "log_mel: samples must be [length], not ", described(samples));
  check(options.rate >= 2, "log_mel: rate is ", options.rate, ", expected at least 2");
  check(options.window >= 2 && options.window <= kMostWindow, "log_mel: window is ", options.window, ", expected 2 to ",
        kMostWindow);
  check(options.hop >= 1, "log_mel: hop is ", options.hop, ", expected at least 1");
  check(options.bins >= 1 && options.bins <= kMostBins, "log_mel: bins is ", options.bins, ", expected 1 to ",
        kMostBins);
  check(options.length >= 0, "log_mel: length is ", options.length, ", expected 0 or more");
  check(options.max_frequency >= 0.0 && std::isfinite(options.max_frequency), "log_mel: max_frequency is ",
        options.max_frequency, ", expected 0 or a frequency in Hz");
}

// (x - mean) / sqrt(variance + 1e-7): [length]
Tensor normalized(const Tensor& samples) {
  const Tensor result = samples.clone();
  float* const values = result.data<float>();
  const std::int64_t length = result.size(0);
  const auto count = static_cast<double>(std::max<std::int64_t>(length, 1));
  double mean = 0.0, variance = 0.0;
  for (std::int64_t i = 0; i < length; ++i) mean += static_cast<double>(values[i]) / count;
  for (std::int64_t i = 0; i < length; ++i) {
    const double difference = static_cast<double>(values[i]) - mean;
    variance += difference * difference / count;
  }
  const double factor = 1.0 / std::sqrt(variance + 1e-7);
  for (std::int64_t i = 0; i < length; ++i) {
    values[i] = static_cast<float>((static_cast<double>(values[i]) - mean) * factor);
  }
  return result;
}

}  // namespace
}  // namespace internal

Tensor log_mel(const Tensor& samples, const LogMelOptions& options) {
  using namespace internal;
  check_log_mel(samples, options);
  Tensor input = plain_values(samples);
  if (options.normalize)
    input = normalized(options.length > 0 ? input.slice(0, 0, std::min(options.length, input.size(0))) : input);
  if (options.length > 0 && options.length != input.size(0)) {
    const Tensor padded = Tensor::zeros({options.length});
    const std::int64_t kept = std::min(options.length, input.size(0));
    padded.slice(0, 0, kept).copy_from(input.slice(0, 0, kept));
    input = padded;
  }
  const std::int64_t frames = (input.size(0) - options.window % 2) / options.hop;
  check(frames > 0, "log_mel: ", input.size(0), " samples are fewer than the ", options.hop, " of one frame");
  check(frames <= kMostFeatures / options.bins, "log_mel: ", frames, " frames are too many");
  const double max_frequency = options.max_frequency > 0.0
                                   ? options.max_frequency
                                   : std::min(static_cast<double>(options.rate) / 2.0, kWhisperMaxFrequency);
  const Tensor features = Tensor::empty({options.bins, frames});
  fill_logarithms(input, options, mel_filters(options, max_frequency), features);
  float* const values = features.data<float>();
  const std::int64_t count = features.element_count();
  float largest = -std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < count; ++i) {
    check(std::isfinite(values[i]), "log_mel: samples has a value that is not finite");
    largest = std::max(largest, values[i]);
  }
  for (std::int64_t i = 0; i < count; ++i) values[i] = (std::max(values[i], largest - kRange) + 4.0f) / 4.0f;
  return features;
}

}  // namespace headway::inline v0

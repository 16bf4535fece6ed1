#include "perception/sound_windows.h"

#include <algorithm>
#include <cmath>

namespace headway::inline v0::internal {
namespace {

constexpr double kSilence = 1e-4;  // -80 dB

double power_of(const float* samples, std::int64_t count) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < count; ++i) sum += static_cast<double>(samples[i]) * static_cast<double>(samples[i]);
  return sum / static_cast<double>(std::max<std::int64_t>(count, 1));
}

// Moves the ends of a window inwards until they are a quarter of a second from what is no silence; both ends meet where
// there is nothing else.
void leave_out_silence(const float* samples, std::int64_t rate, SoundWindow& window) {
  const std::int64_t stretch = std::max<std::int64_t>(rate / 50, 1), kept = rate / 4;
  const auto is_silent = [&](std::int64_t begin, std::int64_t end) {
    return power_of(samples + begin, end - begin) <= kSilence * kSilence;
  };
  std::int64_t begin = window.begin, end = window.end;
  while (begin < end && is_silent(begin, std::min(begin + stretch, end))) begin = std::min(begin + stretch, end);
  while (end > begin && is_silent(std::max(end - stretch, begin), end)) end = std::max(end - stretch, begin);
  window.silent = begin == end;
  if (window.silent) return;
  window.begin = std::max(begin - kept, window.begin);
  window.end = std::min(end + kept, window.end);
}

// The middle of the quietest stretch between two places.
std::int64_t quietest_place(const float* samples, std::int64_t begin, std::int64_t end, std::int64_t rate) {
  const std::int64_t stretch = std::min(std::max<std::int64_t>(rate / 10, 1), end - begin);
  const std::int64_t hop = std::max<std::int64_t>(stretch / 4, 1);
  std::int64_t best = end - stretch;
  double least = power_of(samples + best, stretch);
  for (std::int64_t at = best - hop; at >= begin; at -= hop) {
    const double power = power_of(samples + at, stretch);
    if (power < least) {
      least = power;
      best = at;
    }
  }
  return best + stretch / 2;
}

}  // namespace

std::vector<SoundWindow> sound_windows(const Tensor& samples, std::int64_t rate, std::int64_t longest) {
  const std::int64_t length = samples.size(0);
  const float* values = samples.data<float>();
  std::vector<SoundWindow> windows;
  SoundWindow whole = {.begin = 0, .end = length};
  leave_out_silence(values, rate, whole);
  if (whole.silent && length > 0) return {whole};
  const std::int64_t last = whole.end;
  for (std::int64_t begin = whole.begin; begin < last;) {
    std::int64_t end = last;
    if (last - begin > longest) {
      end = quietest_place(values, begin + longest - longest / 4, begin + longest, rate);
      end = std::max(end, begin + 1);
    }
    windows.push_back({.begin = begin, .end = end});
    leave_out_silence(values, rate, windows.back());
    begin = end;
  }
  return windows;
}

}  // namespace headway::inline v0::internal

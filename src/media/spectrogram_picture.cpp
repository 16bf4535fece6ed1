// A spectrogram as colours: the darker, the less power.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "headway/image.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

struct Colour {
  float red, green, blue;
};
// Equal steps of brightness, from night blue over violet, red and orange to a pale yellow.
constexpr std::array<Colour, 8> kColours = {{{0.020f, 0.024f, 0.090f},
                                             {0.125f, 0.067f, 0.290f},
                                             {0.314f, 0.082f, 0.431f},
                                             {0.518f, 0.145f, 0.467f},
                                             {0.737f, 0.224f, 0.408f},
                                             {0.922f, 0.361f, 0.286f},
                                             {0.992f, 0.616f, 0.302f},
                                             {0.992f, 0.929f, 0.624f}}};

// The colour of a brightness from 0 to 1, between its two neighbours of the table.
Colour colour_of(float brightness) {
  const float place = brightness * static_cast<float>(kColours.size() - 1);
  const std::size_t below = std::min(static_cast<std::size_t>(place), kColours.size() - 2);
  const float part = place - static_cast<float>(below);
  const Colour& a = kColours[below];
  const Colour& b = kColours[below + 1];
  return {a.red + part * (b.red - a.red), a.green + part * (b.green - a.green), a.blue + part * (b.blue - a.blue)};
}

}  // namespace
}  // namespace internal

Tensor spectrogram_picture(const Tensor& log_mel) {
  internal::check(log_mel.defined() && log_mel.rank() == 2 && log_mel.element_count() > 0,
                  "spectrogram_picture: log_mel must be [bins, frames], not ", internal::described(log_mel));
  const Tensor values = internal::plain_values(log_mel);
  const std::int64_t bins = values.size(0);
  const std::int64_t frames = values.size(1);
  const float* data = values.data<const float>();
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  for (std::int64_t i = 0; i < bins * frames; ++i) {
    internal::check(std::isfinite(data[i]), "spectrogram_picture: log_mel has a value that is not finite");
    low = std::min(low, data[i]);
    high = std::max(high, data[i]);
  }
  const float scale = high > low ? 1.0f / (high - low) : 0.0f;
  const Tensor pixels = Tensor::empty({bins, frames, 3});
  float* pixel = pixels.data<float>();
  for (std::int64_t row = bins - 1; row >= 0; --row) {
    for (std::int64_t frame = 0; frame < frames; ++frame, pixel += 3) {
      const internal::Colour colour = internal::colour_of((data[row * frames + frame] - low) * scale);
      pixel[0] = colour.red;
      pixel[1] = colour.green;
      pixel[2] = colour.blue;
    }
  }
  return pixels;
}

}  // namespace headway::inline v0

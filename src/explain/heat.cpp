#include "explain/heat.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "explain/packing.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::array<Heat, 6> kHeat = {{{{0x0B, 0x10, 0x2B}, 0.68},
                                        {{0x3B, 0x10, 0x6B}, 0.62},
                                        {{0xA3, 0x1E, 0x6B}, 0.56},
                                        {{0xE8, 0x50, 0x34}, 0.52},
                                        {{0xFD, 0xA0, 0x1E}, 0.50},
                                        {{0xFF, 0xF0, 0xC4}, 0.50}}};

double mixed(double from, double to, double part) { return from + part * (to - from); }

std::uint8_t channel(double value) { return static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0))); }

// Weights of the four cells around a place, `part` of the way from the second to the third.
std::array<float, 4> spline_weights(float part) {
  const float rest = 1.0F - part;
  return {rest * rest * rest / 6.0F, (3.0F * part * part * part - 6.0F * part * part + 4.0F) / 6.0F,
          (3.0F * rest * rest * rest - 6.0F * rest * rest + 4.0F) / 6.0F, part * part * part / 6.0F};
}

// One line of `count` cells, `stride` apart, as count * scale samples.
void smooth_line(const float* cells, std::int64_t count, std::int64_t stride, std::int64_t scale, float* out,
                 std::int64_t out_stride) {
  for (std::int64_t i = 0; i < count * scale; ++i) {
    const float place = (static_cast<float>(i) + 0.5F) / static_cast<float>(scale) - 0.5F;
    const auto first = static_cast<std::int64_t>(std::floor(place));
    const std::array<float, 4> weights = spline_weights(place - static_cast<float>(first));
    float sum = 0.0F;
    for (std::int64_t k = 0; k < 4; ++k) {
      const std::int64_t cell = std::clamp<std::int64_t>(first - 1 + k, 0, count - 1);
      sum += weights[static_cast<std::size_t>(k)] * cells[cell * stride];
    }
    out[i * out_stride] = sum;
  }
}

}  // namespace

Heat heat_at(double shade) {
  const double place = std::clamp(shade, 0.0, 1.0) * static_cast<double>(kHeat.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), kHeat.size() - 2);
  const double part = place - static_cast<double>(low);
  const Heat &from = kHeat[low], &to = kHeat[low + 1];
  return {{channel(mixed(from.color.red, to.color.red, part)), channel(mixed(from.color.green, to.color.green, part)),
           channel(mixed(from.color.blue, to.color.blue, part))},
          mixed(from.alpha, to.alpha, part)};
}

std::vector<float> smooth_grid(const float* cells, std::int64_t rows, std::int64_t columns, std::int64_t scale) {
  const std::int64_t width = columns * scale;
  std::vector<float> wide(static_cast<std::size_t>(rows * width));
  std::vector<float> smooth(static_cast<std::size_t>(rows * scale * width));
  for (std::int64_t row = 0; row < rows; ++row) {
    smooth_line(cells + row * columns, columns, 1, scale, wide.data() + row * width, 1);
  }
  for (std::int64_t x = 0; x < width; ++x) smooth_line(wide.data() + x, rows, width, scale, smooth.data() + x, width);
  return smooth;
}

std::string heat_png(const std::vector<float>& shades, std::int64_t height, std::int64_t width) {
  constexpr int kLevels = 48;  // the eye cannot tell them from 256, and they pack better
  IndexedImage image{.width = width, .height = height, .pixels = {}, .palette = {}};
  for (int level = 0; level < kLevels; ++level) {
    const Heat heat = heat_at(static_cast<double>(level) / (kLevels - 1));
    for (const std::uint8_t part : {heat.color.red, heat.color.green, heat.color.blue}) {
      image.palette.push_back(static_cast<char>(part));
    }
    image.alpha.push_back(static_cast<char>(channel(heat.alpha * 255.0)));
  }
  for (const float shade : shades) {
    image.pixels.push_back(static_cast<char>(std::lround(std::clamp(shade, 0.0F, 1.0F) * (kLevels - 1))));
  }
  return png(image);
}

}  // namespace headway::inline v0::internal

#include "media/resize.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "core/thread_pool.h"
#include "media/picture_file.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// Pillow's weights of 8-bit pixels are whole numbers of 1 / 2^22.
constexpr double kFixedPoint = 1 << 22;
constexpr double kHighestLevel = 255.0;

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic with a = -0.5.
double cubic(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((kA + 2.0) * x - (kA + 3.0)) * x * x + 1.0;
  return x < 2.0 ? (((x - 5.0) * x + 8.0) * x - 4.0) * kA : 0.0;
}

// The weights of the source's positions for one position of the result.
struct Window {
  std::int64_t first = 0;
  std::vector<double> weights;
};

// One for each of `size` positions. Below the source's size the filter is stretched, so that it sees every pixel.
std::vector<Window> filter_windows(std::int64_t source, std::int64_t size, Resampling resampling, PixelValues values) {
  const bool is_cubic = resampling == Resampling::bicubic;
  const double scale = static_cast<double>(source) / static_cast<double>(size);
  const double stretch = std::max(scale, 1.0);
  const double support = (is_cubic ? 2.0 : 1.0) * stretch;
  std::vector<Window> windows(static_cast<std::size_t>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    Window& window = windows[static_cast<std::size_t>(i)];
    window.first = std::max<std::int64_t>(static_cast<std::int64_t>(std::trunc(centre - support + 0.5)), 0);
    const std::int64_t end = std::min(static_cast<std::int64_t>(std::trunc(centre + support + 0.5)), source);
    double sum = 0.0;
    for (std::int64_t place = window.first; place < end; ++place) {
      const double x = (static_cast<double>(place) - centre + 0.5) / stretch;
      window.weights.push_back(is_cubic ? cubic(x) : triangle(x));
      sum += window.weights.back();
    }
    for (double& weight : window.weights) {
      if (sum != 0.0) weight *= 1.0 / sum;
      if (values == PixelValues::levels) weight = std::trunc(weight * kFixedPoint + std::copysign(0.5, weight));
    }
  }
  return windows;
}

std::vector<Window> nearest_windows(std::int64_t source, std::int64_t size) {
  const double scale = static_cast<double>(source) / static_cast<double>(size);
  std::vector<Window> windows(static_cast<std::size_t>(size));
  double place = scale * 0.5;  // is added up, as in Pillow
  for (Window& window : windows) {
    window = {.first = std::min(static_cast<std::int64_t>(place), source - 1), .weights = {1.0}};
    place += scale;
  }
  return windows;
}

double finished(double sum, PixelValues values) {
  if (values == PixelValues::fractions) return std::clamp(sum, 0.0, 1.0);
  return std::clamp(std::floor((sum + kFixedPoint / 2.0) / kFixedPoint), 0.0, kHighestLevel);
}

// A sum over windows of `stride`d values: source [outer, length, inner] -> [outer, windows, inner].
void filter_row(const float* source, std::int64_t inner, const Window& window, PixelValues values, bool is_copy,
                float* there) {
  for (std::int64_t i = 0; i < inner; ++i) {
    const float* place = source + window.first * inner + i;
    if (is_copy) {
      there[i] = *place;
      continue;
    }
    double sum = 0.0;
    for (const double weight : window.weights) {
      sum += weight * static_cast<double>(*place);
      place += inner;
    }
    there[i] = static_cast<float>(finished(sum, values));
  }
}

// One direction: dimension `dim` of [rows, columns, channels] gets another size.
Tensor filtered(const Tensor& source, int dim, std::int64_t size, Resampling resampling, PixelValues values) {
  const std::int64_t length = source.size(dim);
  if (length == size) return source;
  const bool is_copy = resampling == Resampling::nearest;
  const std::vector<Window> windows =
      is_copy ? nearest_windows(length, size) : filter_windows(length, size, resampling, values);
  const std::int64_t channels = source.size(2);
  const std::int64_t rows = dim == 0 ? size : source.size(0);
  const std::int64_t columns = dim == 1 ? size : source.size(1);
  const Tensor result = Tensor::empty({rows, columns, channels});
  const auto* from = source.data<const float>();
  float* const to = result.data<float>();
  parallel_for(rows, [&](std::int64_t row, int) {
    float* there = to + row * columns * channels;
    if (dim == 0) {
      filter_row(from, columns * channels, windows[static_cast<std::size_t>(row)], values, is_copy, there);
      return;
    }
    for (const Window& window : windows) {
      filter_row(from + row * length * channels, channels, window, values, is_copy, there);
      there += channels;
    }
  });
  return result;
}

// Colours of RGBA times their alpha, or divided by it again.
Tensor weighted_by_alpha(const Tensor& pixels, bool divide) {
  const Tensor result = pixels.clone();
  float* pixel = result.data<float>();
  for (std::int64_t i = 0; i < result.size(0) * result.size(1); ++i, pixel += 4) {
    const float factor = !divide ? pixel[3] : pixel[3] > 0.0f ? 1.0f / pixel[3] : 0.0f;
    for (int channel = 0; channel < 3; ++channel) pixel[channel] = std::min(pixel[channel] * factor, 1.0f);
  }
  return result;
}

}  // namespace

Tensor resized(const Tensor& pixels, std::int64_t height, std::int64_t width, Resampling resampling,
               PixelValues values) {
  // The order of Pillow 13; where pixels are rounded, the other one may differ by a level.
  const std::int64_t fewer_rows = pixels.size(0) - height;
  const bool is_height_first = fewer_rows > 0 && fewer_rows > 2 * (pixels.size(1) - width);
  const Tensor half = filtered(pixels, is_height_first ? 0 : 1, is_height_first ? height : width, resampling, values);
  return filtered(half, is_height_first ? 1 : 0, is_height_first ? width : height, resampling, values);
}

}  // namespace internal

Tensor resize(const Tensor& pixels, std::int64_t height, std::int64_t width, Resampling resampling) {
  using namespace internal;
  check(pixels.defined() && pixels.rank() == 3 && pixels.element_count() > 0,
        "resize: pixels must be [height, width, channels], not ", described(pixels));
  check(height >= 1 && width >= 1 && height <= kMostPixels / width, "resize: the new size is ", width, " x ", height,
        ", expected 1 to ", kMostPixels, " pixels");
  check(height <= kMostPixels / pixels.size(1) && width <= kMostPixels / pixels.size(0), "resize: from ",
        pixels.size(1), " x ", pixels.size(0), " to ", width, " x ", height, " needs too many pixels in between");
  const Tensor values = plain_values(pixels);
  if (values.size(2) != 4 || resampling == Resampling::nearest) {
    return resized(values, height, width, resampling, PixelValues::fractions);
  }
  const Tensor weighted = weighted_by_alpha(values, false);
  return weighted_by_alpha(resized(weighted, height, width, resampling, PixelValues::fractions), true);
}

}  // namespace headway::inline v0

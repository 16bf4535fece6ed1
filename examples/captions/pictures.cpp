#include "captions/pictures.h"

#include <headway/image.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace captions {
namespace {

constexpr std::int64_t kChannels = 4;
constexpr std::int64_t kBytes = kSide * kSide * kChannels;

using Colour = std::array<float, 3>;
using Pixel = std::array<float, kChannels>;

// A picture [side, side, 4] with its colours multiplied by their alpha.
struct Premultiplied {
  std::int64_t side = kSide;
  std::vector<Pixel> pixels;

  const Pixel* at(std::int64_t y, std::int64_t x) const {
    static constexpr Pixel kOutside = {};
    return x < 0 || y < 0 || x >= side || y >= side ? &kOutside : &pixels[static_cast<std::size_t>(y * side + x)];
  }
};

Premultiplied premultiplied(const std::uint8_t* bytes) {
  Premultiplied picture = {.side = kSide, .pixels = std::vector<Pixel>(kSide * kSide)};
  for (Pixel& pixel : picture.pixels) {
    const float alpha = static_cast<float>(bytes[3]) / 255.0F;
    for (std::size_t c = 0; c < 3; ++c) pixel[c] = static_cast<float>(bytes[c]) / 255.0F * alpha;
    pixel[3] = alpha;
    bytes += kChannels;
  }
  return picture;
}

// Each pixel the mean of four.
Premultiplied halved(const Premultiplied& picture) {
  Premultiplied result = {.side = picture.side / 2, .pixels = {}};
  for (std::int64_t y = 0; y < result.side; ++y) {
    for (std::int64_t x = 0; x < result.side; ++x) {
      Pixel mean = {};
      for (const std::int64_t i : {0, 1, 2, 3}) {
        const Pixel& pixel = *picture.at(2 * y + i / 2, 2 * x + i % 2);
        for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += pixel[c] / 4.0F;
      }
      result.pixels.push_back(mean);
    }
  }
  return result;
}

// Where the pixels of one row or column come from: the first of two neighbours, and the share of the second.
struct Source {
  std::int64_t first;
  float share;
};
std::vector<Source> sources(float scale, float shift, std::int64_t side) {
  std::vector<Source> result;
  for (std::int64_t i = 0; i < kSide; ++i) {
    const float centred = (static_cast<float>(i) + 0.5F - kSide / 2.0F - shift) / scale / (kSide / 2.0F);  // -1 to 1
    const float place = ((centred + 1.0F) * static_cast<float>(side) - 1.0F) / 2.0F;
    const float first = std::floor(place);
    result.push_back({static_cast<std::int64_t>(first), place - first});
  }
  return result;
}

Pixel interpolated(const Premultiplied& picture, const Source& y, const Source& x) {
  const Pixel& a = *picture.at(y.first, x.first);
  const Pixel& b = *picture.at(y.first, x.first + 1);
  const Pixel& c = *picture.at(y.first + 1, x.first);
  const Pixel& d = *picture.at(y.first + 1, x.first + 1);
  Pixel result;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float above = a[i] + (b[i] - a[i]) * x.share, below = c[i] + (d[i] - c[i]) * x.share;
    result[i] = above + (below - above) * y.share;
  }
  return result;
}

Colour background_of(const std::array<float, 9>& u) {
  if (u[4] < 0.7F) return {1.0F, 1.0F, 1.0F};
  if (u[4] < 0.85F) return {u[5], u[5], u[5]};
  return {u[5], u[6], u[7]};
}

}  // namespace

Pictures::Pictures(const std::vector<Emoji>& emoji) {
  bytes_.reserve(emoji.size() * kBytes);
  for (const Emoji& item : emoji) {
    const headway::Picture picture = headway::read_picture(item.picture, kChannels);
    if (picture.pixels.shape() != headway::Shape{kSide, kSide, kChannels}) {
      throw headway::Error(item.picture.string() + ": the picture is " + picture.pixels.describe() +
                           ", expected 72 x 72 pixels");
    }
    const float* const values = picture.pixels.data<float>();
    for (std::int64_t i = 0; i < kBytes; ++i) {
      bytes_.push_back(static_cast<std::uint8_t>(std::lround(values[i] * 255.0F)));
    }
  }
}

void Pictures::augment(std::int64_t item, std::uint64_t seed, std::int64_t place, float* pixels) const {
  std::array<float, 9> u;
  for (std::size_t i = 0; i < u.size(); ++i) u[i] = static_cast<float>(draw(seed, place, i));
  Premultiplied picture = premultiplied(&bytes_[static_cast<std::size_t>(item * kBytes)]);
  if (u[3] < 0.2F) picture = halved(picture);
  const float scale = 0.85F + 0.25F * u[0];
  const std::vector<Source> columns = sources(scale, 6.0F * u[1] - 3.0F, picture.side);
  const std::vector<Source> rows = sources(scale, 6.0F * u[2] - 3.0F, picture.side);
  const Colour background = background_of(u);
  const float brightness = 0.92F + 0.16F * u[8];
  for (std::size_t y = 0; y < rows.size(); ++y) {
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const Pixel pixel = interpolated(picture, rows[y], columns[x]);
      for (std::size_t c = 0; c < background.size(); ++c) {
        const float colour = pixel[c] + (1.0F - pixel[3]) * background[c];
        pixels[(c * rows.size() + y) * columns.size() + x] = std::clamp(brightness * colour, 0.0F, 1.0F) * 2.0F - 1.0F;
      }
    }
  }
}

}  // namespace captions

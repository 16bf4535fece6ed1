#include "video/clips.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>

#include "support/files.h"

namespace video {
namespace {

using headway::Error;

// SplitMix64: a short generator whose numbers are the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(next() >> 11U) * 0x1.0p-53;
  }
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(next() % count); }
  // Nearly normal, with deviation 1: the sum of the four 16-bit parts of one number.
  double noise() {
    const std::uint64_t bits = next();
    double sum = 0;
    for (unsigned part = 0; part < 4; ++part) sum += static_cast<double>((bits >> (16 * part)) & 0xffffU);
    return (sum / 65535.0 - 2.0) * std::numbers::sqrt3;
  }

 private:
  std::uint64_t state_;
};

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return Random(Random(a).next() ^ b).next(); }

// Where and how the digit is drawn in one frame.
struct Pose {
  double x = 0, y = 0;    // the digit's centre from the frame's, in pixels
  double angle = 0;       // degrees, clockwise on the screen
  double cell = 1.5;      // pixels per cell of the 8 x 8 digit
  double shear = 0;       // columns to the side per row
  double stretch = 1;     // width over height
  double brightness = 1;  // of a full cell
};

// Catmull-Rom weights of the four cells around a place: smooth, and equal to the cells at their centres.
std::array<double, 4> cubic_weights(double t) {
  return {((-0.5 * t + 1.0) * t - 0.5) * t, (1.5 * t - 2.5) * t * t + 1.0, ((-1.5 * t + 2.0) * t + 0.5) * t,
          (0.5 * t - 0.5) * t * t};
}

double cell_value(const Digit& digit, double column, double row) {
  const double left = std::floor(column), top = std::floor(row);
  if (left < -2 || left > 8 || top < -2 || top > 8) return 0;
  const std::array<double, 4> across = cubic_weights(column - left), down = cubic_weights(row - top);
  double sum = 0;
  for (int j = 0; j < 4; ++j) {
    const int y = static_cast<int>(top) - 1 + j;
    if (y < 0 || y > 7) continue;
    for (int i = 0; i < 4; ++i) {
      const int x = static_cast<int>(left) - 1 + i;
      if (x < 0 || x > 7) continue;
      sum += down[static_cast<std::size_t>(j)] * across[static_cast<std::size_t>(i)] *
             static_cast<double>(digit.pixels[static_cast<std::size_t>(8 * y + x)]);
    }
  }
  return std::clamp(sum, 0.0, 1.0);
}

void draw(const Digit& digit, const Pose& pose, Random* random, std::uint8_t* frame) {
  constexpr double kNoise = 0.04, kMiddle = (static_cast<double>(kSide) - 1) / 2;
  const double radians = pose.angle * std::numbers::pi / 180;
  const double cosine = std::cos(radians) / pose.cell, sine = std::sin(radians) / pose.cell;
  const double wide = std::sqrt(pose.stretch);
  for (std::int64_t y = 0; y < kSide; ++y) {
    for (std::int64_t x = 0; x < kSide; ++x) {
      const double dx = static_cast<double>(x) - kMiddle - pose.x, dy = static_cast<double>(y) - kMiddle - pose.y;
      const double row = (cosine * dy - sine * dx) * wide;
      const double column = (cosine * dx + sine * dy) / wide - pose.shear * row;
      const double value = pose.brightness * cell_value(digit, column + 3.5, row + 3.5) + kNoise * random->noise();
      frame[y * kSide + x] = static_cast<std::uint8_t>(std::lround(255 * std::clamp(value, 0.0, 1.0)));
    }
  }
}

Digit parse_digit(const std::string& line, const std::string& about) {
  const std::vector<double> numbers = example::numbers_of(line, about);
  if (numbers.size() != 65) {
    throw Error(about + ": " + std::to_string(numbers.size()) + " numbers, expected 64 pixels and the digit");
  }
  Digit digit;
  for (std::size_t i = 0; i < 64; ++i) {
    if (numbers[i] < 0 || numbers[i] > 16) throw Error(about + ": a pixel is not between 0 and 16");
    digit.pixels[i] = static_cast<float>(numbers[i] / 16);
  }
  if (numbers[64] < 0 || numbers[64] > 9) throw Error(about + ": the digit is not between 0 and 9");
  digit.value = static_cast<std::int64_t>(numbers[64]);
  return digit;
}

}  // namespace

Digits read_digits(const std::filesystem::path& path) {
  const std::filesystem::path file = std::filesystem::is_directory(path) ? path / "digits.csv" : path;
  std::ifstream stream(file);
  if (!stream) {
    std::filesystem::path packed = file;
    packed += ".gz";
    throw Error(file.string() + ": cannot be read" +
                (std::filesystem::exists(packed) ? "; unpack it first: gzip -dk " + packed.string() : ""));
  }
  Digits digits;
  std::int64_t row = 0;
  for (std::string line; std::getline(stream, line); ++row) {
    (row % 5 == 4 ? digits.test : digits.training)
        .push_back(parse_digit(line, file.string() + ", line " + std::to_string(row + 1)));
  }
  if (digits.test.empty()) throw Error(file.string() + ": fewer than five rows");
  return digits;
}

Clip make_clip(const Digit& digit, std::int64_t action, std::uint64_t seed, bool varied) {
  Random random(seed);
  Pose pose;
  pose.x = random.between(-2.5, 2.5);
  pose.y = random.between(-2.5, 2.5);
  pose.angle = random.between(-12, 12);
  pose.cell = random.between(1.3, 1.7);
  pose.brightness = random.between(0.75, 1);
  const double distance = random.between(5, 9);  // pixels from the first to the last frame
  const double turn = random.between(25, 50);    // degrees, likewise
  const double growth = std::log(random.between(1.35, 1.7));
  if (varied) {
    pose.shear = random.between(-0.2, 0.2);
    pose.stretch = random.between(0.8, 1.25);
  }
  if (action < 2) pose.x *= 0.4;  // room for the way
  if (action == 2 || action == 3) pose.y *= 0.4;

  Clip clip = {.pixels = std::vector<std::uint8_t>(static_cast<std::size_t>(kClipPixels)),
               .action = action,
               .digit = digit.value};
  for (std::int64_t frame = 0; frame < kFrames; ++frame) {
    const double time = static_cast<double>(frame) / (static_cast<double>(kFrames) - 1) - 0.5;  // -0.5 to 0.5
    Pose now = pose;
    switch (action) {
      case 0:
        now.x -= distance * time;
        break;
      case 1:
        now.x += distance * time;
        break;
      case 2:
        now.y -= distance * time;
        break;
      case 3:
        now.y += distance * time;
        break;
      case 4:
        now.angle += turn * time;
        break;
      case 5:
        now.angle -= turn * time;
        break;
      case 6:
        now.cell *= std::exp(growth * time);
        break;
      case 7:
        now.cell *= std::exp(-growth * time);
        break;
      default:
        break;
    }
    draw(digit, now, &random, clip.pixels.data() + frame * kFramePixels);
  }
  return clip;
}

std::vector<Clip> training_clips(const Digits& digits, std::uint64_t seed, std::int64_t index, std::int64_t count) {
  Random random(mixed(seed, static_cast<std::uint64_t>(index)));
  std::vector<Clip> clips;
  for (std::int64_t i = 0; i < count; ++i) {
    const Digit& digit = digits.training[random.below(digits.training.size())];
    const auto action = static_cast<std::int64_t>(random.below(kActions.size()));
    clips.push_back(make_clip(digit, action, random.next(), true));
  }
  return clips;
}

std::vector<Clip> test_clips(const Digits& digits, std::uint64_t seed, std::int64_t limit) {
  const auto all = static_cast<std::int64_t>(digits.test.size()) * kActionCount;
  const std::int64_t count = limit > 0 ? std::min(limit, all) : all;
  std::vector<Clip> clips;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = i * all / count;
    clips.push_back(make_clip(digits.test[static_cast<std::size_t>(at / kActionCount)], at % kActionCount,
                              mixed(~seed, static_cast<std::uint64_t>(at)), false));
  }
  return clips;
}

headway::Tensor clip_tensor(const std::vector<Clip>& clips) {
  headway::Tensor tensor = headway::Tensor::empty({static_cast<std::int64_t>(clips.size()), kFrames, kSide, kSide});
  float* out = tensor.data<float>();
  for (const Clip& clip : clips) {
    out = std::transform(clip.pixels.begin(), clip.pixels.end(), out,
                         [](std::uint8_t byte) { return static_cast<float>(byte) / 255.0F; });
  }
  return tensor;
}

}  // namespace video

// Clips: an 8 x 8 digit that moves, turns, grows, shrinks or stands still for 16 frames of 24 x 24 pixels.
#pragma once

#include <headway/headway.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace video {

constexpr std::int64_t kFrames = 16;
constexpr std::int64_t kSide = 24;  // pixels of a frame's side
constexpr std::int64_t kFramePixels = kSide * kSide;
constexpr std::int64_t kClipPixels = kFrames * kFramePixels;
constexpr std::int64_t kDigits = 10;

const std::array<std::string, 9> kActions = {"moves left", "moves right",     "moves up",
                                             "moves down", "turns clockwise", "turns counter-clockwise",
                                             "grows",      "shrinks",         "stands still"};
constexpr std::int64_t kActionCount = 9;

struct Digit {
  std::array<float, 64> pixels = {};  // 8 rows of 8, 0 to 1
  std::int64_t value = 0;
};
// The rows of digits.csv: 64 pixels from 0 to 16, then the digit.
struct Digits {
  std::vector<Digit> training;
  std::vector<Digit> test;  // every fifth row: 5, 10, 15, ...
};
// Reads digits.csv, or directory/digits.csv.
Digits read_digits(const std::filesystem::path& path);

struct Clip {
  std::vector<std::uint8_t> pixels;  // [frames, side, side]
  std::int64_t action = 0;
  std::int64_t digit = 0;
};
// Draws one clip. Everything random in it follows from the seed. `varied` changes the digit's form as well: shear,
// width and height, for training.
Clip make_clip(const Digit& digit, std::int64_t action, std::uint64_t seed, bool varied);

// Clips of one training step: digits and actions at random, from (seed, index) alone.
std::vector<Clip> training_clips(const Digits& digits, std::uint64_t seed, std::int64_t index, std::int64_t count);
// Every test digit with every action: 359 x 9 = 3,231 clips. With `limit` above 0 only so many, spread evenly.
std::vector<Clip> test_clips(const Digits& digits, std::uint64_t seed, std::int64_t limit = 0);

// Bytes as brightness from 0 to 1: [clips, frames, side, side].
headway::Tensor clip_tensor(const std::vector<Clip>& clips);

}  // namespace video

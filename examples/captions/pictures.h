// Pictures as the model reads them in training: shifted, scaled, blurred, on another background.
#pragma once

#include <headway/headway.h>

#include <cstdint>
#include <vector>

#include "captions/emoji.h"

namespace captions {

constexpr std::int64_t kSide = 72;  // of a picture, in pixels

// All pictures of a list, read once.
class Pictures {
 public:
  explicit Pictures(const std::vector<Emoji>& emoji);

  // The picture of an item, changed by the draws of a place of the run: float32 [3, 72, 72], -1 to 1. Scaled by 0.85 to
  // 1.1, moved by up to 3 pixels each way, a fifth of them at half the resolution; 70% of the backgrounds are white,
  // 15% grey, 15% of any colour; brightness 0.92 to 1.08. Nothing is mirrored, since captions say left and right.
  void augment(std::int64_t item, std::uint64_t seed, std::int64_t place, float* pixels) const;

 private:
  std::vector<std::uint8_t> bytes_;  // [items, 72, 72, RGBA]
};

}  // namespace captions

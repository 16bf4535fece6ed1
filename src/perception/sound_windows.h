// A sound in stretches that a model can read.
#pragma once

#include <cstdint>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

struct SoundWindow {
  std::int64_t begin = 0;  // samples [begin, end) of the sound
  std::int64_t end = 0;
  bool silent = false;  // its loudest 20 ms are below -80 dB of full scale

  std::int64_t length() const { return end - begin; }
};

// Windows of at most `longest` samples, in order, that cover a sound [length] but for silence of more than a quarter of
// a second at their ends. What is longer is cut at the quietest tenth of a second in the last quarter of each window.
std::vector<SoundWindow> sound_windows(const Tensor& samples, std::int64_t rate, std::int64_t longest);

}  // namespace headway::inline v0::internal

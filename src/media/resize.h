// Other sizes of pictures, as Pillow computes them.
#pragma once

#include "headway/image.h"

namespace headway::inline v0::internal {

enum class PixelValues {
  fractions,  // 0 to 1; results are clipped to that
  levels,     // whole numbers from 0 to 255; results are rounded to such after each direction, to the bit as in Pillow
};

// pixels [rows, columns, channels] contiguous float32 -> [height, width, channels]
Tensor resized(const Tensor& pixels, std::int64_t height, std::int64_t width, Resampling resampling,
               PixelValues values);

}  // namespace headway::inline v0::internal

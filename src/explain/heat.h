// The light that weights throw on a picture: colours that let the picture through, and a smooth field between cells.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "explain/colors.h"

namespace headway::inline v0::internal {

// Dark where nothing looks, then violet, red and amber: the strongest place is the brightest.
struct Heat {
  Color color;
  double alpha = 0.0;  // 0 to 1
};
Heat heat_at(double shade);

// Weights of one grid between its cells, `scale` samples to a cell and side: (rows * scale, columns * scale). A cubic
// B-spline, which never overshoots.
std::vector<float> smooth_grid(const float* cells, std::int64_t rows, std::int64_t columns, std::int64_t scale);

// A PNG that is laid over a picture; samples are shades from 0 to 1: (height, width).
std::string heat_png(const std::vector<float>& shades, std::int64_t height, std::int64_t width);

}  // namespace headway::inline v0::internal

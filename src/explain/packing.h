// Weights and images in few bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// Rows of weights in 8 bits: each row's largest weight as a little-endian float32, all rows of them, then one byte for
// each weight, in 255ths of its row's largest.
std::string quantize_rows(const Tensor& weights);

// zlib's format (RFC 1950), which a browser's DecompressionStream("deflate") reads.
std::string deflate(std::string_view bytes);

// A PNG file with one byte for each pixel, an index into at most 256 colours of 3 bytes each.
struct IndexedImage {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::string pixels;      // (height, width)
  std::string palette;     // (colours, 3)
  std::string alpha = {};  // (colours); empty: no colour is transparent
};
std::string png(const IndexedImage& image);

}  // namespace headway::inline v0::internal

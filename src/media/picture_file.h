// Picture files as they are stored, by libpng and libjpeg.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

constexpr std::int64_t kMostPixels = std::int64_t{1} << 27;  // 1.5 GiB of float32 in RGB

struct PictureFile {
  std::int64_t height = 0, width = 0;
  std::int64_t channels = 0;         // 1: grey, 2: grey and alpha, 3: RGB, 4: RGBA
  int depth = 8;                     // bits of a channel: 8, or 16 with the higher byte first
  std::vector<unsigned char> bytes;  // [height, width, channels, depth / 8]
  std::string notes;
};

// Errors begin with `about`.
PictureFile decode_png(std::string_view bytes, const std::string& about);
PictureFile decode_jpeg(std::string_view bytes, const std::string& about);

// The orientation that the Exif data of a file gives, 1 to 8; 1, upright, where it gives none. `exif` begins with the
// order of the bytes, "II" or "MM".
int exif_orientation(std::string_view exif);
// The picture turned so that it is upright.
void turn_upright(PictureFile& picture, int orientation);

}  // namespace headway::inline v0::internal

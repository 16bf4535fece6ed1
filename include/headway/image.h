// Pictures: reading and writing them, other sizes, and the tensors that vision models read. Part of libheadway_media.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

struct Picture {
  Tensor pixels = {};      // [height, width, channels] float32, 0 to 1; channels: 1 (grey), 3 (RGB) or 4 (RGBA)
  std::string notes = {};  // what was changed, "alpha over white"; empty: nothing
};

// Reads a PNG or JPEG file of any kind with 1, 3 or 4 channels. With fewer than 4, what is transparent is put over
// white; colours become grey by their luma. A JPEG is turned as its EXIF orientation says. What is no such file, or a
// broken one, is an Error that begins with the file's name.
HEADWAY_API Picture read_picture(const std::filesystem::path& file, std::int64_t channels = 3);
// The same of a file's bytes; Errors begin with `about`.
HEADWAY_API Picture parse_picture(std::string_view bytes, const std::string& about, std::int64_t channels = 3);

// A PNG file of 8 bits a channel. pixels: [height, width, 1 | 3 | 4] float32, clipped to 0 to 1.
HEADWAY_API std::string encode_png(const Tensor& pixels);
// encode_png into a file, in one piece.
HEADWAY_API void write_png(const std::filesystem::path& file, const Tensor& pixels);

enum class Resampling { nearest, bilinear, bicubic };

// pixels [rows, columns, channels] float32 -> [height, width, channels], 0 to 1; with less than all pixels of the
// source the filter grows with the scale, as Pillow's does, so that nothing flickers. Of 4 channels the colours are
// weighted by their alpha.
HEADWAY_API Tensor resize(const Tensor& pixels, std::int64_t height, std::int64_t width,
                          Resampling resampling = Resampling::bilinear);

// What a model wants of a picture: preprocessor_config.json of ViT and CLIP.
struct HEADWAY_API PictureInput {
  std::int64_t channels = 3;
  // The size to resize to; 0 x 0: as the picture is.
  std::int64_t height = 224, width = 224;
  // Above 0: instead, the shorter side becomes this and the longer one keeps the proportion.
  std::int64_t shortest = 0;
  // What is then cut from the centre, with black where the picture is smaller; 0 x 0: nothing.
  std::int64_t crop_height = 0, crop_width = 0;
  Resampling resampling = Resampling::bilinear;
  double scale = 1.0 / 255.0;                  // of values from 0 to 255
  std::vector<double> mean = {0.5, 0.5, 0.5};  // of each channel: (x * scale - mean) / deviation; empty: not subtracted
  std::vector<double> deviation = {0.5, 0.5, 0.5};

  // What preprocessor_config.json of a directory says.
  static PictureInput load(const std::filesystem::path& directory);
  // Writes preprocessor_config.json into a directory that exists.
  void save(const std::filesystem::path& directory) const;

  bool operator==(const PictureInput&) const = default;
};

// [channels, height, width], float32: what ViTImageProcessor and CLIPImageProcessor of Transformers make of the
// picture, which has as many channels as the input.
HEADWAY_API Tensor picture_tensor(const Picture& picture, const PictureInput& input = {});

// A spectrogram [bins, frames] as a picture [bins, frames, 3]: from dark to bright, low frequencies below.
HEADWAY_API Tensor spectrogram_picture(const Tensor& log_mel);

}  // namespace v0
}  // namespace headway

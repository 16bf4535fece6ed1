// Videos as files: frames in a folder, as several files, or side by side in one picture.
#pragma once

#include <headway/headway.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "video/clips.h"

namespace video {

struct Video {
  headway::Tensor pixels;  // [frames, side, side], 0 to 1
  std::string notes;       // what was changed to get there; empty: nothing
};
// Reads a folder of frames (PNG or JPEG, ordered by name), several files of one frame each, or one picture: where its
// width is a multiple of its height, square frames side by side, else one frame. Frames of another size are resized;
// another number of frames is spread over the 16, one frame is repeated.
Video read_video(const std::vector<std::filesystem::path>& files);

// A clip's frames side by side: [side, frames * side, 1].
headway::Tensor frame_strip(const headway::Tensor& pixels);
// [frames, side, side], 0 to 1.
headway::Tensor clip_pixels(const Clip& clip);

// Four frames of a clip as characters.
std::string drawn(const headway::Tensor& pixels);

}  // namespace video

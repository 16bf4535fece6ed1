#include "video/frames.h"

#include <headway/image.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace video {
namespace {

using headway::Error;
using headway::Tensor;

bool is_picture(const std::filesystem::path& file) {
  std::string ending = file.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".png" || ending == ".jpg" || ending == ".jpeg";
}

std::vector<std::filesystem::path> pictures_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (is_picture(entry.path())) files.push_back(entry.path());
  }
  if (files.empty()) throw Error(folder.string() + ": has no PNG or JPEG files");
  std::sort(files.begin(), files.end());
  return files;
}

// The frames of all files, each [height, width, 1].
std::vector<Tensor> read_frames(const std::vector<std::filesystem::path>& files) {
  std::vector<Tensor> frames;
  for (const std::filesystem::path& file : files) frames.push_back(headway::read_picture(file, 1).pixels);
  if (frames.size() != 1) return frames;
  const Tensor strip = frames[0];
  const std::int64_t side = strip.size(0), count = strip.size(1) / side;
  if (strip.size(1) % side != 0) return frames;
  frames.clear();
  for (std::int64_t i = 0; i < count; ++i) frames.push_back(strip.slice(1, i * side, (i + 1) * side).contiguous());
  return frames;
}

std::string size_of(const Tensor& frame) {
  return std::to_string(frame.size(1)) + " x " + std::to_string(frame.size(0));
}

}  // namespace

Video read_video(const std::vector<std::filesystem::path>& files) {
  if (files.empty()) throw Error("no frames were given");
  const bool is_folder = files.size() == 1 && std::filesystem::is_directory(files[0]);
  std::vector<Tensor> frames = read_frames(is_folder ? pictures_in(files[0]) : files);
  Video video;
  const auto note = [&](const std::string& what) { video.notes += (video.notes.empty() ? "" : "; ") + what; };
  bool is_resized = false;
  for (Tensor& frame : frames) {
    if (frame.size(0) == kSide && frame.size(1) == kSide) continue;
    if (!is_resized) note("frames of " + size_of(frame) + " pixels resized to 24 x 24");
    is_resized = true;
    frame = headway::resize(frame, kSide, kSide);
  }
  const auto count = static_cast<std::int64_t>(frames.size());
  if (count == 1) {
    note("one frame, repeated 16 times: nothing can move in it");
  } else if (count != kFrames) {
    note(std::to_string(count) + " frames spread over 16");
  }
  std::vector<Tensor> spread;
  for (std::int64_t i = 0; i < kFrames; ++i) {
    const std::int64_t nearest = (2 * i * (count - 1) + kFrames - 1) / (2 * (kFrames - 1));
    spread.push_back(frames[static_cast<std::size_t>(nearest)].squeeze(2));
  }
  video.pixels = headway::stack(spread);
  return video;
}

Tensor frame_strip(const Tensor& pixels) {
  const std::int64_t count = pixels.size(0), height = pixels.size(1), width = pixels.size(2);
  return pixels.transpose(0, 1).reshape({height, count * width, 1});
}

Tensor clip_pixels(const Clip& clip) { return clip_tensor({clip}).select(0, 0); }

std::string drawn(const Tensor& pixels) {
  constexpr std::array<std::int64_t, 4> kShown = {0, 5, 10, 15};
  const std::string shades = " .:-=+*#%@";
  std::string text;
  for (std::int64_t row = 0; row < kSide; row += 2) {  // a character is twice as high as wide
    for (const std::int64_t frame : kShown) {
      text += "|";
      for (std::int64_t column = 0; column < kSide; ++column) {
        const double mean = (pixels.at({frame, row, column}) + pixels.at({frame, row + 1, column})) / 2;
        text += shades[static_cast<std::size_t>(mean * 9.99)];
      }
    }
    text += "|\n";
  }
  return text;
}

}  // namespace video

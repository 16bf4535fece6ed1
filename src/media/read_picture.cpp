// Pictures as a model wants them: numbers from 0 to 1 in as many channels as are asked for.
#include <array>
#include <cstdint>

#include "base/check.h"
#include "base/files.h"
#include "headway/image.h"
#include "media/file_start.h"
#include "media/notes.h"
#include "media/picture_file.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::size_t kMostPictureBytes = std::size_t{1} << 30;
constexpr std::string_view kPngStart("\x89PNG\r\n\x1a\n", 8);
constexpr std::string_view kJpegStart("\xff\xd8", 2);

// Reads the channels of one pixel after the other.
class PixelReader {
 public:
  explicit PixelReader(const PictureFile& picture)
      : colours_(picture.channels >= 3 ? 3 : 1),
        has_alpha_(picture.channels % 2 == 0),
        depth_(picture.depth),
        place_(picture.bytes.data()) {}

  std::array<float, 3> colours() {
    for (int i = 0; i < colours_; ++i) levels_[static_cast<std::size_t>(i)] = next();
    const float scale = 1.0f / static_cast<float>(highest());
    if (colours_ == 1) levels_[1] = levels_[2] = levels_[0];
    return {static_cast<float>(levels_[0]) * scale, static_cast<float>(levels_[1]) * scale,
            static_cast<float>(levels_[2]) * scale};
  }
  // Of the same pixel, after its colours.
  float alpha() { return has_alpha_ ? static_cast<float>(next()) / static_cast<float>(highest()) : 1.0f; }
  // The luma of the last colours, by ITU-R 601 in integers as Pillow computes it.
  float luma() const {
    const std::int64_t sum = 19595 * levels_[0] + 38470 * levels_[1] + 7471 * levels_[2] + 0x8000;
    return static_cast<float>(sum >> 16) / static_cast<float>(highest());
  }
  bool is_grey() const { return levels_[0] == levels_[1] && levels_[1] == levels_[2]; }

 private:
  std::int64_t highest() const { return depth_ == 16 ? 65535 : 255; }
  std::int64_t next() {
    if (depth_ == 8) return *place_++;
    const std::int64_t level = place_[0] << 8 | place_[1];
    place_ += 2;
    return level;
  }

  int colours_;
  bool has_alpha_;
  int depth_;
  const unsigned char* place_;
  std::array<std::int64_t, 3> levels_ = {};
};

Picture converted(const PictureFile& file, std::int64_t channels) {
  Picture picture = {.pixels = Tensor::empty({file.height, file.width, channels}), .notes = file.notes};
  float* there = picture.pixels.data<float>();
  PixelReader reader(file);
  bool saw_alpha = false;
  bool lost_colour = false;
  for (std::int64_t i = 0; i < file.height * file.width; ++i, there += channels) {
    std::array<float, 3> colours = reader.colours();
    const float alpha = reader.alpha();
    if (channels == 1) {
      lost_colour |= !reader.is_grey();
      colours[0] = reader.luma();
    }
    if (channels == 4) {
      there[3] = alpha;
    } else if (alpha != 1.0f) {
      saw_alpha = true;
      for (float& colour : colours) colour = colour * alpha + (1.0f - alpha);
    }
    for (std::int64_t channel = 0; channel < std::min<std::int64_t>(channels, 3); ++channel) {
      there[channel] = colours[static_cast<std::size_t>(channel)];
    }
  }
  if (saw_alpha) add_note(picture.notes, "alpha over white");
  if (lost_colour) add_note(picture.notes, "colours made grey");
  return picture;
}

}  // namespace
}  // namespace internal

Picture parse_picture(std::string_view bytes, const std::string& about, std::int64_t channels) {
  using namespace internal;
  check(channels == 1 || channels == 3 || channels == 4, about, ": channels is ", channels, ", expected 1, 3 or 4");
  check(!bytes.empty(), about, ": an empty file, not a picture");
  const bool is_png = bytes.starts_with(kPngStart);
  check(is_png || bytes.starts_with(kJpegStart), about, ": not a picture: ", described_start(bytes),
        "; PNG and JPEG can be read");
  return converted(is_png ? decode_png(bytes, about) : decode_jpeg(bytes, about), channels);
}

Picture read_picture(const std::filesystem::path& file, std::int64_t channels) {
  return parse_picture(internal::read_whole_file(file, {}, {.limit = internal::kMostPictureBytes}), file.string(),
                       channels);
}

}  // namespace headway::inline v0

// How a camera was held: Exif data, and pictures turned by it.
#include <cstring>
#include <utility>

#include "media/notes.h"
#include "media/picture_file.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kOrientationTag = 0x0112;
constexpr std::size_t kEntryBytes = 12;

// Numbers of a TIFF file in its order of bytes; 0 beyond its end.
class TiffNumbers {
 public:
  explicit TiffNumbers(std::string_view bytes) : bytes_(bytes), low_first_(bytes.starts_with("II")) {}

  std::int64_t at(std::size_t place, std::size_t count) const {
    if (place > bytes_.size() || count > bytes_.size() - place) return 0;
    std::int64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = value << 8 | static_cast<unsigned char>(bytes_[place + (low_first_ ? count - 1 - i : i)]);
    }
    return value;
  }

 private:
  std::string_view bytes_;
  bool low_first_;
};

}  // namespace

int exif_orientation(std::string_view exif) {
  if (!exif.starts_with("II") && !exif.starts_with("MM")) return 1;
  const TiffNumbers numbers(exif);
  if (numbers.at(2, 2) != 42) return 1;
  const auto directory = static_cast<std::size_t>(numbers.at(4, 4));
  const auto entries = static_cast<std::size_t>(numbers.at(directory, 2));
  for (std::size_t i = 0; i < entries; ++i) {
    const std::size_t entry = directory + 2 + i * kEntryBytes;
    if (numbers.at(entry, 2) != kOrientationTag) continue;
    const std::int64_t orientation = numbers.at(entry + 8, 2);
    return orientation >= 1 && orientation <= 8 ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

void turn_upright(PictureFile& picture, int orientation) {
  if (orientation <= 1) return;
  const std::int64_t height = picture.height;
  const std::int64_t width = picture.width;
  const bool is_transposed = orientation >= 5;
  // Which of the stored rows and columns run backwards.
  const bool rows_backwards = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool columns_backwards = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const auto pixel_bytes = static_cast<std::size_t>(picture.channels * (picture.depth / 8));
  std::vector<unsigned char> turned(picture.bytes.size());
  unsigned char* there = turned.data();
  for (std::int64_t row = 0; row < (is_transposed ? width : height); ++row) {
    for (std::int64_t column = 0; column < (is_transposed ? height : width); ++column, there += pixel_bytes) {
      const std::int64_t stored_row = is_transposed ? column : row;
      const std::int64_t stored_column = is_transposed ? row : column;
      const std::int64_t from = (rows_backwards ? height - 1 - stored_row : stored_row) * width +
                                (columns_backwards ? width - 1 - stored_column : stored_column);
      std::memcpy(there, picture.bytes.data() + static_cast<std::size_t>(from) * pixel_bytes, pixel_bytes);
    }
  }
  picture.bytes = std::move(turned);
  if (is_transposed) std::swap(picture.height, picture.width);
  add_note(picture.notes, "turned upright by its Exif orientation ", orientation);
}

}  // namespace headway::inline v0::internal

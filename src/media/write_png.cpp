#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/files.h"
#include "headway/image.h"
#include "media/guarded_steps.h"
#include "media/picture_file.h"
#include "media/values.h"

namespace headway::inline v0 {
namespace internal {
namespace {

struct PngWriter {
  std::string bytes;  // of the file, so far
  png_uint_32 height = 0, width = 0;
  int colours = 0;  // PNG_COLOR_TYPE_…
  unsigned char** rows = nullptr;
  png_structp png = nullptr;
  png_infop info = nullptr;
  char message[160] = "";
  std::jmp_buf leave;

  PngWriter() = default;
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void on_write_error(png_structp png, png_const_charp message) {
  auto& writer = *static_cast<PngWriter*>(png_get_error_ptr(png));
  std::strncpy(writer.message, message, sizeof(writer.message) - 1);
  std::longjmp(writer.leave, 1);
}
void on_write_warning(png_structp, png_const_charp) {}

bool append_bytes(std::string& bytes, const char* more, std::size_t count) noexcept {
  try {
    bytes.append(more, count);
    return true;
  } catch (...) {
    return false;
  }
}

void take_png_bytes(png_structp png, png_bytep from, std::size_t count) {
  auto& writer = *static_cast<PngWriter*>(png_get_io_ptr(png));
  if (!append_bytes(writer.bytes, reinterpret_cast<const char*>(from), count)) png_error(png, "no memory");
}
void flush_nothing(png_structp) {}

void write_png_picture(PngWriter& writer) {
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, on_write_error, on_write_warning);
  if (writer.png == nullptr) return;
  writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) return;
  png_set_write_fn(writer.png, &writer, take_png_bytes, flush_nothing);
  png_set_user_limits(writer.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
  png_set_IHDR(writer.png, writer.info, writer.width, writer.height, 8, writer.colours, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  png_write_image(writer.png, writer.rows);
  png_write_end(writer.png, nullptr);
}

}  // namespace
}  // namespace internal

std::string encode_png(const Tensor& pixels) {
  using namespace internal;
  check(pixels.defined() && pixels.rank() == 3 && pixels.element_count() > 0 &&
            (pixels.size(2) == 1 || pixels.size(2) == 3 || pixels.size(2) == 4),
        "encode_png: pixels must be [height, width, 1, 3 or 4], not ", described(pixels));
  check(pixels.size(0) <= kMostPixels / pixels.size(1), "encode_png: pixels is ", pixels, ", more than ", kMostPixels,
        " pixels");
  const Tensor values = plain_values(pixels);
  std::vector<unsigned char> levels(static_cast<std::size_t>(values.element_count()));
  for (std::size_t i = 0; i < levels.size(); ++i) {
    const float value = values.data<const float>()[i];
    check(!std::isnan(value), "encode_png: pixels has a value that is not a number");
    levels[i] = static_cast<unsigned char>(std::lrint(std::clamp(value, 0.0f, 1.0f) * 255.0f));
  }
  const auto height = static_cast<std::size_t>(values.size(0));
  std::vector<unsigned char*> rows(height);
  for (std::size_t row = 0; row < height; ++row) rows[row] = levels.data() + row * (levels.size() / height);
  constexpr std::array<int, 5> kColours = {0, PNG_COLOR_TYPE_GRAY, 0, PNG_COLOR_TYPE_RGB, PNG_COLOR_TYPE_RGBA};
  PngWriter writer;
  writer.height = static_cast<png_uint_32>(height);
  writer.width = static_cast<png_uint_32>(values.size(1));
  writer.colours = kColours[static_cast<std::size_t>(values.size(2))];
  writer.rows = rows.data();
  if (!completes(writer, write_png_picture)) fail("encode_png: ", writer.message);
  check(writer.info != nullptr, "encode_png: no memory");
  return std::move(writer.bytes);
}

void write_png(const std::filesystem::path& file, const Tensor& pixels) {
  internal::replace_file(file, encode_png(pixels), "write_png");
}

}  // namespace headway::inline v0

#include <png.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/terminal.h"
#include "media/guarded_steps.h"
#include "media/picture_file.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::int64_t kMostExpansion = 1032;  // bytes that one byte of a deflate stream can stand for

struct PngReader {
  std::string_view bytes;
  std::size_t place = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  unsigned char** rows = nullptr;
  char message[160] = "";
  std::jmp_buf leave;

  PngReader() = default;
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_png_error(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::strncpy(reader.message, message, sizeof(reader.message) - 1);
  std::longjmp(reader.leave, 1);
}
void on_png_warning(png_structp, png_const_charp) {}

void read_png_bytes(png_structp png, png_bytep there, std::size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.bytes.size() - reader.place) png_error(png, "the file ends early");
  std::memcpy(there, reader.bytes.data() + reader.place, count);
  reader.place += count;
}

void read_png_header(PngReader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_png_error, on_png_warning);
  if (reader.png == nullptr) return;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return;
  png_set_read_fn(reader.png, &reader, read_png_bytes);
  png_set_user_limits(reader.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // the pixels have a limit of their own
  png_read_info(reader.png, reader.info);
}

// Palettes become RGB, fewer than 8 bits become 8, a transparent colour becomes alpha.
void expand_png(PngReader& reader) {
  png_set_expand(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
}

void read_png_rows(PngReader& reader) { png_read_image(reader.png, reader.rows); }

}  // namespace

PictureFile decode_png(std::string_view bytes, const std::string& about) {
  PngReader reader;
  reader.bytes = bytes;
  const auto run = [&](void (*step)(PngReader&)) {
    if (!completes(reader, step)) fail(about, ": a broken PNG file: ", visible_token(reader.message));
  };
  run(read_png_header);
  check(reader.info != nullptr, about, ": no memory to read a PNG file");
  PictureFile picture;
  picture.height = png_get_image_height(reader.png, reader.info);
  picture.width = png_get_image_width(reader.png, reader.info);
  check(picture.height <= kMostPixels / picture.width, about, ": ", picture.width, " x ", picture.height,
        " pixels are more than ", kMostPixels);
  const auto stored = static_cast<std::int64_t>(png_get_rowbytes(reader.png, reader.info)) * picture.height;
  check(stored / kMostExpansion <= static_cast<std::int64_t>(bytes.size()), about,
        ": a broken PNG file: ", bytes.size(), " bytes cannot hold ", picture.width, " x ", picture.height, " pixels");
  run(expand_png);
  picture.channels = png_get_channels(reader.png, reader.info);
  picture.depth = png_get_bit_depth(reader.png, reader.info);
  const std::size_t row_bytes = png_get_rowbytes(reader.png, reader.info);
  check(row_bytes == static_cast<std::size_t>(picture.width * picture.channels * (picture.depth / 8)), about,
        ": a PNG file of ", picture.channels, " channels and ", picture.depth, " bits, expected 8 or 16");
  picture.bytes.resize(row_bytes * static_cast<std::size_t>(picture.height));
  std::vector<unsigned char*> rows(static_cast<std::size_t>(picture.height));
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = picture.bytes.data() + row * row_bytes;
  reader.rows = rows.data();
  run(read_png_rows);
  return picture;
}

}  // namespace headway::inline v0::internal

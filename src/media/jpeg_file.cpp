#include <cstdio>
// jpeglib.h needs the FILE of cstdio.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "base/terminal.h"
#include "media/guarded_steps.h"
#include "media/notes.h"
#include "media/picture_file.h"

namespace headway::inline v0::internal {
namespace {

// Every bit codes at least one block of 8 x 8 of some component, which stands for up to 32 x 32 pixels.
constexpr std::int64_t kMostPixelsOfByte = std::int64_t{8} * 32 * 32;
constexpr int kMostScans = 500;  // of a progressive file; each one passes over the whole picture
constexpr int kExifMarker = JPEG_APP0 + 1;
constexpr std::string_view kExifStart("Exif\0\0", 6);

struct JpegReader {
  jpeg_decompress_struct jpeg = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::string_view bytes;
  unsigned char* pixels = nullptr;
  std::size_t row_bytes = 0;
  char message[JMSG_LENGTH_MAX] = "";
  bool is_damaged = false;
  std::jmp_buf leave;

  JpegReader() = default;
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
  ~JpegReader() { jpeg_destroy_decompress(&jpeg); }
};

[[noreturn]] void on_jpeg_error(j_common_ptr jpeg) {
  auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, reader.message);
  std::longjmp(reader.leave, 1);
}

// After a warning libjpeg makes up what is missing, but for these, which say nothing about the pixels.
void on_jpeg_message(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  constexpr std::array<int, 5> kHarmless = {JWRN_ADOBE_XFORM, JWRN_EXTRANEOUS_DATA, JWRN_JFIF_MAJOR,
                                            JWRN_NOT_SEQUENTIAL, JWRN_TOO_MUCH_DATA};
  auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
  const int code = jpeg->err->msg_code;
  if (reader.is_damaged || std::find(kHarmless.begin(), kHarmless.end(), code) != kHarmless.end()) return;
  reader.is_damaged = true;
  jpeg->err->format_message(jpeg, reader.message);
}
void on_jpeg_output(j_common_ptr) {}

void on_jpeg_progress(j_common_ptr jpeg) {
  auto& reader = *static_cast<JpegReader*>(jpeg->client_data);
  if (reader.jpeg.input_scan_number <= kMostScans) return;
  std::strncpy(reader.message, "too many scans", sizeof(reader.message) - 1);
  std::longjmp(reader.leave, 1);
}

void read_jpeg_header(JpegReader& reader) {
  jpeg_decompress_struct& jpeg = reader.jpeg;
  jpeg.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = on_jpeg_error;
  reader.errors.emit_message = on_jpeg_message;
  reader.errors.output_message = on_jpeg_output;
  jpeg.client_data = &reader;
  jpeg_create_decompress(&jpeg);
  reader.progress.progress_monitor = on_jpeg_progress;
  jpeg.progress = &reader.progress;
  jpeg_save_markers(&jpeg, kExifMarker, 0xffff);
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(reader.bytes.data()), reader.bytes.size());
  jpeg_read_header(&jpeg, TRUE);
}

void read_jpeg_rows(JpegReader& reader) {
  jpeg_start_decompress(&reader.jpeg);
  while (reader.jpeg.output_scanline < reader.jpeg.output_height) {
    unsigned char* row = reader.pixels + reader.jpeg.output_scanline * reader.row_bytes;
    jpeg_read_scanlines(&reader.jpeg, &row, 1);
  }
}

int orientation_of(const jpeg_decompress_struct& jpeg) {
  for (jpeg_saved_marker_ptr marker = jpeg.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (marker->marker == kExifMarker && data.starts_with(kExifStart)) {
      return exif_orientation(data.substr(kExifStart.size()));
    }
  }
  return 1;
}

// CMYK [pixels, 4] to RGB [pixels, 3], without a colour profile. Adobe's files have 255 for no ink.
void make_rgb(std::vector<unsigned char>& bytes, bool is_inverted) {
  const std::size_t count = bytes.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const int black = is_inverted ? bytes[4 * i + 3] : 255 - bytes[4 * i + 3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const int ink = bytes[4 * i + channel];
      bytes[3 * i + channel] = static_cast<unsigned char>(((is_inverted ? ink : 255 - ink) * black + 127) / 255);
    }
  }
  bytes.resize(3 * count);
}

}  // namespace

PictureFile decode_jpeg(std::string_view bytes, const std::string& about) {
  JpegReader reader;
  reader.bytes = bytes;
  const auto run = [&](void (*step)(JpegReader&)) {
    if (completes(reader, step) && !reader.is_damaged) return;
    fail(about, ": a broken JPEG file: ", visible_token(reader.message));
  };
  run(read_jpeg_header);
  PictureFile picture;
  picture.height = reader.jpeg.image_height;
  picture.width = reader.jpeg.image_width;
  check(picture.height <= kMostPixels / picture.width, about, ": ", picture.width, " x ", picture.height,
        " pixels are more than ", kMostPixels);
  check(picture.height * picture.width / kMostPixelsOfByte <= static_cast<std::int64_t>(bytes.size()), about,
        ": a broken JPEG file: ", bytes.size(), " bytes cannot hold ", picture.width, " x ", picture.height, " pixels");
  const J_COLOR_SPACE stored = reader.jpeg.jpeg_color_space;
  const bool is_cmyk = stored == JCS_CMYK || stored == JCS_YCCK;
  reader.jpeg.out_color_space = is_cmyk ? JCS_CMYK : stored == JCS_GRAYSCALE ? JCS_GRAYSCALE : JCS_RGB;
  picture.channels = is_cmyk ? 4 : stored == JCS_GRAYSCALE ? 1 : 3;
  reader.row_bytes = static_cast<std::size_t>(picture.width * picture.channels);
  picture.bytes.resize(reader.row_bytes * static_cast<std::size_t>(picture.height));
  reader.pixels = picture.bytes.data();
  run(read_jpeg_rows);
  if (is_cmyk) {
    make_rgb(picture.bytes, reader.jpeg.saw_Adobe_marker != FALSE);
    picture.channels = 3;
    add_note(picture.notes, "inks made RGB without their colour profile");
  }
  turn_upright(picture, orientation_of(reader.jpeg));
  return picture;
}

}  // namespace headway::inline v0::internal

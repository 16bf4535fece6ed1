// Weights in few bytes, and bytes as text.
#include "explain/packing.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

void append_little_endian(std::string& bytes, std::uint32_t value) {
  for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift & 0xFFU));
}

void append_big_endian(std::string& bytes, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift & 0xFFU));
}

void append_chunk(std::string& file, std::string_view kind, std::string_view content) {
  append_big_endian(file, static_cast<std::uint32_t>(content.size()));
  std::string body(kind);
  body += content;
  file += body;
  const auto* bytes = reinterpret_cast<const Bytef*>(body.data());
  append_big_endian(file, static_cast<std::uint32_t>(crc32_z(0, bytes, body.size())));
}

}  // namespace

std::string quantize_rows(const Tensor& weights) {
  constexpr float kLevels = 255.0F;
  const std::int64_t keys = weights.size(-1);
  const std::int64_t rows = keys == 0 ? 0 : weights.element_count() / keys;
  const float* values = weights.data<float>();
  std::string bytes;
  bytes.reserve(static_cast<std::size_t>(rows * (keys + 4)));
  for (std::int64_t r = 0; r < rows; ++r) {
    const float largest = *std::max_element(values + r * keys, values + (r + 1) * keys);
    append_little_endian(bytes, std::bit_cast<std::uint32_t>(largest));
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const float* row = values + r * keys;
    const float largest = *std::max_element(row, row + keys);
    for (std::int64_t k = 0; k < keys; ++k) {
      // Divided first: 255 / largest would overflow for the smallest of numbers.
      const float level = largest > 0.0F ? row[k] / largest * kLevels : 0.0F;
      bytes.push_back(static_cast<char>(static_cast<unsigned char>(std::lround(level))));
    }
  }
  return bytes;
}

std::string deflate(std::string_view bytes) {
  // Past some megabytes the best compression takes seconds and saves little.
  constexpr std::size_t kMany = std::size_t{4} << 20U;
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string packed(size, '\0');
  const int code =
      compress2(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                static_cast<uLong>(bytes.size()), bytes.size() > kMany ? Z_BEST_SPEED : Z_BEST_COMPRESSION);
  check(code == Z_OK, "deflate: zlib failed with code ", code);
  packed.resize(size);
  return packed;
}

std::string png(const IndexedImage& image) {
  std::string header;
  append_big_endian(header, static_cast<std::uint32_t>(image.width));
  append_big_endian(header, static_cast<std::uint32_t>(image.height));
  header += std::string("\x08\x03\x00\x00\x00", 5);  // 8 bits, by palette, no interlace
  std::string lines;
  for (std::int64_t y = 0; y < image.height; ++y) {
    lines.push_back('\0');  // no filter
    lines.append(image.pixels, static_cast<std::size_t>(y * image.width), static_cast<std::size_t>(image.width));
  }
  std::string file = "\x89PNG\r\n\x1A\n";
  append_chunk(file, "IHDR", header);
  append_chunk(file, "PLTE", image.palette);
  if (!image.alpha.empty()) append_chunk(file, "tRNS", image.alpha);
  append_chunk(file, "IDAT", deflate(lines));
  append_chunk(file, "IEND", {});
  return file;
}

}  // namespace headway::inline v0::internal

#include "explain/medium.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <vector>

#include "base/base64.h"
#include "base/check.h"
#include "explain/json.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr std::string_view kPngSignature = "\x89PNG\r\n\x1a\n";
constexpr std::size_t kPngHeader = 24;  // the signature, and the first chunk as far as width and height

std::int64_t big_endian(std::string_view bytes) {
  std::int64_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

// The shortest digits that read back as the same number.
std::string shortest(double value) {
  char digits[32];
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), value);
  return {digits, end.ptr};
}

std::string cell_name(const AttentionMedium& medium, std::int64_t frame, std::int64_t row, std::int64_t column) {
  if (medium.kind == MediumKind::sound) {
    if (medium.seconds <= 0.0) return "position " + std::to_string(column + 1);
    char text[32];
    std::snprintf(text, sizeof(text), "%.2f s", static_cast<double>(column) * medium.seconds);
    return text;
  }
  const std::string of_frame = medium.kind == MediumKind::video ? "frame " + std::to_string(frame + 1) + " " : "";
  return of_frame + "row " + std::to_string(row + 1) + " column " + std::to_string(column + 1);
}

}  // namespace

PictureSize png_size(const std::string& png) {
  if (png.size() < kPngHeader || !png.starts_with(kPngSignature)) return {};
  const std::string_view header(png);
  return {big_endian(header.substr(16, 4)), big_endian(header.substr(20, 4))};
}

void check_medium(const char* function, const std::string& what, const AttentionMedium& medium, std::int64_t tokens) {
  check(std::isfinite(medium.seconds) && medium.seconds >= 0.0, function, ": ", what, "'s seconds are ", medium.seconds,
        ", expected a finite number that is not negative");
  check(medium.first >= 0 && medium.first <= tokens, function, ": ", what, "'s first is ", medium.first,
        ", expected 0 to its ", tokens, " tokens");
  if (!has_grid(medium)) {
    check(medium.png.empty(), function, ": ", what, " is a ", medium_name(medium.kind), " with a png, expected none");
    return;
  }
  check(medium.kind == MediumKind::video || medium.frames == 1, function, ": ", what, " is a ",
        medium_name(medium.kind), " of ", medium.frames, " frames, expected 1");
  check(medium.kind != MediumKind::sound || medium.rows == 1, function, ": ", what, " is a sound of ", medium.rows,
        " rows, expected 1");
  const auto counts = [tokens](std::int64_t count) { return count >= 1 && count <= tokens; };
  // Each below the number of tokens, which are in memory, so that the product of the first two does not overflow.
  const bool fits = counts(medium.frames) && counts(medium.rows) && counts(medium.columns) &&
                    medium.frames * medium.rows <= tokens &&
                    medium.first + medium.frames * medium.rows * medium.columns == tokens;
  check(fits, function, ": ", what, " has first ", medium.first, ", frames ", medium.frames, ", rows ", medium.rows,
        ", columns ", medium.columns, ", expected first + frames * rows * columns to be its ", tokens, " tokens");
  const PictureSize size = png_size(medium.png);
  constexpr std::int64_t kLargest = 1 << 20;
  check(medium.png.empty() || (size.width > 0 && size.width <= kLargest && size.height > 0 && size.height <= kLargest),
        function, ": ", what, "'s png has ", medium.png.size(),
        " bytes that do not begin with a PNG's signature and size, expected a PNG or nothing");
}

const char* medium_name(MediumKind kind) {
  switch (kind) {
    case MediumKind::picture:
      return "picture";
    case MediumKind::sound:
      return "sound";
    case MediumKind::video:
      return "video";
    case MediumKind::list:
      return "list";
    case MediumKind::text:
      break;
  }
  return "text";
}

std::string medium_json(const AttentionMedium& medium) {
  const auto field = [](const char* name, std::int64_t value) {
    return std::string(",\"") + name + "\":" + std::to_string(value);
  };
  std::string json = std::string("{\"kind\":\"") + medium_name(medium.kind) + "\"" + field("first", medium.first);
  if (has_grid(medium)) {
    const PictureSize size = png_size(medium.png);
    json += field("frames", medium.frames) + field("rows", medium.rows) + field("columns", medium.columns) +
            ",\"seconds\":" + shortest(medium.seconds) + field("width", size.width) + field("height", size.height) +
            ",\"png\":\"" + base64(medium.png) + "\"";
  }
  return json + "}";
}

}  // namespace internal

std::vector<std::string> medium_labels(const AttentionMedium& medium) {
  using namespace internal;
  check(has_grid(medium), "medium_labels: medium is a ", medium_name(medium.kind),
        ", expected a picture, sound or video");
  check(medium.first >= 0 && medium.frames >= 0 && medium.rows >= 0 && medium.columns >= 0, "medium_labels: first ",
        medium.first, ", frames ", medium.frames, ", rows ", medium.rows, ", columns ", medium.columns,
        ", expected none of them to be negative");
  std::vector<std::string> labels;
  for (std::int64_t i = 0; i < medium.first; ++i) labels.push_back(i == 0 ? "class" : "class " + std::to_string(i + 1));
  for (std::int64_t frame = 0; frame < medium.frames; ++frame) {
    for (std::int64_t row = 0; row < medium.rows; ++row) {
      for (std::int64_t column = 0; column < medium.columns; ++column) {
        labels.push_back(cell_name(medium, frame, row, column));
      }
    }
  }
  return labels;
}

}  // namespace headway::inline v0

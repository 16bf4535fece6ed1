// Pieces of a terminal drawing: padded cells, coloured blocks, shades.
#include "explain/terminal.h"

#include <algorithm>
#include <cmath>

#include "explain/token_text.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::string_view kReset = "\x1b[0m";

std::string spaces(std::int64_t count) {
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, count)), ' ');
}

// The escape for a 24-bit colour; `layer` is 38 for text and 48 for its background.
std::string color_escape(int layer, Color color) {
  return "\x1b[" + std::to_string(layer) + ";2;" + std::to_string(color.red) + ";" + std::to_string(color.green) + ";" +
         std::to_string(color.blue) + "m";
}

std::string repeat(std::string_view text, std::int64_t count) {
  std::string result;
  for (std::int64_t i = 0; i < count; ++i) result += text;
  return result;
}

}  // namespace

std::string pad_left(std::string_view text, std::int64_t width) {
  return spaces(width - display_width(text)) + std::string(text);
}

std::string pad_right(std::string_view text, std::int64_t width) {
  return std::string(text) + spaces(width - display_width(text));
}

std::string map_cell(float shade, std::int64_t width, bool color) {
  if (color) return color_escape(48, color_at(kTerminalScale, shade)) + spaces(width) + std::string(kReset);
  static constexpr std::string_view kShades[] = {" ", "░", "▒", "▓", "█"};
  const auto level = std::min<std::size_t>(4, static_cast<std::size_t>(std::clamp(shade, 0.0F, 1.0F) * 5.0F));
  return repeat(kShades[level], width);
}

std::string bar(float part, std::int64_t width, bool color) {
  static constexpr std::string_view kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const std::int64_t eighths = std::lround(std::clamp(part, 0.0F, 1.0F) * static_cast<float>(width * 8));
  const std::string filled = repeat("█", eighths / 8) + std::string(kEighths[eighths % 8]);
  if (!color) return pad_right(filled, width);
  constexpr float kReadable = 0.45F;  // so that a bar's colour contrasts with dark and light backgrounds
  const Color ink = color_at(kTerminalScale, kReadable + 0.3F * std::clamp(part, 0.0F, 1.0F));
  return color_escape(38, ink) + pad_right(filled, width) + std::string(kReset);
}

std::string grey(std::string_view text, bool color) {
  return color ? "\x1b[90m" + std::string(text) + std::string(kReset) : std::string(text);
}

std::string bold(std::string_view text, bool color) {
  return color ? "\x1b[1m" + std::string(text) + std::string(kReset) : std::string(text);
}

}  // namespace headway::inline v0::internal

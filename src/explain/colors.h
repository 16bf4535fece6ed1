// The colours of weights: one hue whose lightness alone shows the strength, so that colour-blind people can read it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace headway::inline v0::internal {

struct Color {
  std::uint8_t red = 0, green = 0, blue = 0;
};

using ColorScale = std::array<Color, 5>;
// On paper, stronger is darker; in a terminal, where blocks have a dark background, stronger is lighter.
inline constexpr ColorScale kPaperScale = {
    {{0xF4, 0xF6, 0xF8}, {0xC9, 0xDC, 0xEC}, {0x7F, 0xB0, 0xD9}, {0x2F, 0x74, 0xB5}, {0x0B, 0x2F, 0x66}}};
inline constexpr ColorScale kTerminalScale = {
    {{0x14, 0x1A, 0x24}, {0x1D, 0x3F, 0x6B}, {0x2F, 0x74, 0xB5}, {0x8C, 0xC4, 0xEE}, {0xF2, 0xF9, 0xFF}}};

// The colour at `shade`, 0 to 1.
inline Color color_at(const ColorScale& scale, float shade) {
  const float place = std::clamp(shade, 0.0F, 1.0F) * static_cast<float>(scale.size() - 1);
  const auto low = std::min(static_cast<std::size_t>(place), scale.size() - 2);
  const float part = place - static_cast<float>(low);
  const auto mix = [&](std::uint8_t from, std::uint8_t to) {
    return static_cast<std::uint8_t>(std::lround(static_cast<float>(from) + part * static_cast<float>(to - from)));
  };
  const Color &from = scale[low], &to = scale[low + 1];
  return {mix(from.red, to.red), mix(from.green, to.green), mix(from.blue, to.blue)};
}

// How strongly a weight is drawn, 0 to 1: the root makes weak ones visible.
inline float shade_of(float weight, float strongest) {
  return strongest > 0.0F ? std::sqrt(std::clamp(weight / strongest, 0.0F, 1.0F)) : 0.0F;
}

}  // namespace headway::inline v0::internal

#include "media/file_start.h"

#include <algorithm>

#include "base/terminal.h"
#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

constexpr std::size_t kShownText = 24;
constexpr std::size_t kShownBytes = 8;
constexpr std::size_t kLookedAt = 512;

// UTF-8 without control characters, as far as is looked at. The last character may be cut.
bool looks_like_text(std::string_view bytes) {
  std::string_view rest = bytes.substr(0, kLookedAt);
  while (!rest.empty()) {
    const std::size_t left = rest.size();
    bool valid = true;
    const char32_t character = next_character(rest, valid);
    if (!valid) return bytes.size() > kLookedAt && left < 4;
    if (is_control_character(character) && character != '\n' && character != '\r' && character != '\t') return false;
  }
  return true;
}

}  // namespace

std::string described_start(std::string_view bytes) {
  if (looks_like_text(bytes)) return "it is text, \"" + visible_token(shortened(bytes, kShownText)) + '"';
  std::string text = "it begins with the bytes";
  for (const char byte : bytes.substr(0, kShownBytes)) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const auto value = static_cast<unsigned char>(byte);
    text += {' ', kDigits[value >> 4], kDigits[value & 15]};
  }
  return text;
}

}  // namespace headway::inline v0::internal

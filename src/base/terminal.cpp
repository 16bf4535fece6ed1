#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "base/utf8.h"

namespace headway::inline v0::internal {
namespace {

// The descriptor behind a standard stream; -1 for other streams.
int descriptor_of(const std::ostream& stream) {
  if (&stream == &std::cout) return STDOUT_FILENO;
  return &stream == &std::cerr || &stream == &std::clog ? STDERR_FILENO : -1;
}

// Appends \x1b for a byte or an ASCII character, \u009b for others.
void append_written_out(std::string& text, char32_t code, bool is_byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  const bool is_short = is_byte || code < 0x80;
  text += is_short ? "\\x" : "\\u";
  for (int shift = is_short ? 4 : 12; shift >= 0; shift -= 4) text += kDigits[code >> shift & 15];
}

template <typename IsWrittenOut>
std::string with_escapes(std::string_view text, const IsWrittenOut& is_written_out) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const std::string_view before = text;
    bool valid = true;
    const char32_t code = next_character(text, valid);
    const std::string_view bytes = before.substr(0, before.size() - text.size());
    if (!valid) {
      for (const char byte : bytes) append_written_out(result, static_cast<unsigned char>(byte), true);
    } else if (is_written_out(code)) {
      append_written_out(result, code, false);
    } else {
      result += bytes;
    }
  }
  return result;
}

}  // namespace

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }
bool is_terminal(const std::ostream& stream) { return is_terminal(descriptor_of(stream)); }

std::int64_t terminal_width(int descriptor, std::int64_t otherwise) {
  winsize size = {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}
std::int64_t terminal_width(const std::ostream& stream, std::int64_t otherwise) {
  return terminal_width(descriptor_of(stream), otherwise);
}

bool is_control_character(char32_t character) { return character < 0x20 || (character >= 0x7F && character < 0xA0); }

bool is_direction_mark(char32_t character) {
  return character == 0x061C || character == 0x200E || character == 0x200F ||
         (character >= 0x202A && character <= 0x202E) || (character >= 0x2066 && character <= 0x2069);
}

std::string visible_text(std::string_view text) {
  return with_escapes(text, [](char32_t c) { return is_control_character(c) && c != '\t' && c != '\n'; });
}

std::string visible_token(std::string_view token) {
  return with_escapes(
      token, [](char32_t c) { return is_control_character(c) || is_direction_mark(c) || c == 0x2028 || c == 0x2029; });
}

}  // namespace headway::inline v0::internal

#include "base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

namespace headway::inline v0::internal {
namespace {

// The descriptor behind a standard stream; -1 for other streams.
int descriptor_of(const std::ostream& stream) {
  if (&stream == &std::cout) return STDOUT_FILENO;
  return &stream == &std::cerr || &stream == &std::clog ? STDERR_FILENO : -1;
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

}  // namespace headway::inline v0::internal

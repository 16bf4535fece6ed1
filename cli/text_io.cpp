#include "text_io.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace cli {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

[[noreturn]] void fail_with_errno(const std::string& file, const std::string& what) {
  throw std::runtime_error(file + ": " + what + ": " + std::generic_category().message(errno));
}

// The length of the UTF-8 character at the text's start, or 0 where none is.
std::size_t character_length(std::string_view text) {
  const auto byte = [&text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  const std::size_t length = first < 0x80   ? 1
                             : first < 0xC2 ? 0
                             : first < 0xE0 ? 2
                             : first < 0xF0 ? 3
                             : first < 0xF5 ? 4
                                            : 0;
  if (length == 0 || length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what is past U+10FFFF.
  const bool bad = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
                   (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return bad ? 0 : length;
}

}  // namespace

bool InputTexts::fill() {
  buffer_.erase(0, position_);
  searched_ -= position_;
  position_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, buffer_.data() + before, kChunk);
  } while (count < 0 && errno == EINTR);
  buffer_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count < 0) fail_with_errno("standard input", "cannot be read");
  at_end_ = count == 0;
  return count > 0;
}

bool InputTexts::take(std::string& text) {
  std::size_t end = buffer_.find(end_, searched_);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    if (!at_end_ || position_ == buffer_.size()) return false;
    end = buffer_.size();
  }
  text = buffer_.substr(position_, end - position_);
  position_ = searched_ = std::min(end + 1, buffer_.size());
  if (end_ == '\n' && !text.empty() && text.back() == '\r') text.pop_back();
  return true;
}

std::vector<std::string> InputTexts::next(std::size_t most) {
  std::vector<std::string> texts;
  std::string text;
  while (texts.size() < most) {
    if (take(text)) {
      texts.push_back(std::move(text));
      continue;
    }
    if (at_end_) break;
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    const bool waiting = ::poll(&input, 1, 0) == 0;
    if (waiting && !texts.empty()) break;
    fill();
  }
  return texts;
}

std::vector<std::string> read_lines(const std::string& file) {
  if (file == "-") {
    InputTexts input;
    std::vector<std::string> lines;
    for (auto more = input.next(kChunk); !more.empty(); more = input.next(kChunk)) {
      lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
    }
    return lines;
  }
  errno = 0;
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw std::runtime_error(file + ": is a directory");
  std::ifstream stream(file, std::ios::binary);
  if (!stream.is_open()) fail_with_errno(file, "cannot be opened");
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    lines.push_back(line);
  }
  if (stream.bad()) fail_with_errno(file, "cannot be read");
  return lines;
}

void write_file(const std::string& file, std::string_view text) {
  if (file == "-") {
    std::cout << text;
    return;
  }
  const std::string temporary = file + ".tmp-" + std::to_string(::getpid());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor < 0) fail_with_errno(file, "cannot be written");
  bool good = true;
  while (good && !text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    good = written >= 0 || errno == EINTR;
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
  good = ::close(descriptor) == 0 && good;
  if (good && std::rename(temporary.c_str(), file.c_str()) == 0) return;
  const int problem = errno;
  ::unlink(temporary.c_str());
  errno = problem;
  fail_with_errno(file, "cannot be written");
}

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

std::int64_t terminal_width(int descriptor, std::int64_t otherwise) {
  winsize size = {};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    const char first = text.front();
    if (length == 0) {
      quoted += "\xEF\xBF\xBD";
    } else if (first == '"' || first == '\\') {
      quoted += {'\\', first};
    } else if (static_cast<unsigned char>(first) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", static_cast<unsigned>(first));
      quoted += escape;
    } else {
      quoted += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return quoted + '"';
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

std::string fixed(double value, int digits) {
  char text[400];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

std::string joined(const std::vector<std::string>& words, const std::string& separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return text;
}

std::string count_of(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace cli

#include "text_io.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include "base/files.h"

namespace cli {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

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
  if (count < 0) {
    throw std::runtime_error("standard input: cannot be read: " + std::generic_category().message(errno));
  }
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
  const std::string text = headway::internal::read_whole_file(file, {}, {.pipes = true});
  std::vector<std::string> lines;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    lines.emplace_back(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
  }
  return lines;
}

void write_file(const std::string& file, std::string_view text) {
  if (file == "-") {
    std::cout << text;
    return;
  }
  headway::internal::replace_file(file, text);
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

std::string shell_quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shown_text(std::string text) { return is_terminal(STDOUT_FILENO) ? visible_text(text) : std::move(text); }

std::string shown_line(std::string text) { return shown_text(one_line(std::move(text))); }

std::string count_of(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

}  // namespace cli

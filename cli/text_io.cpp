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
#include <utility>

#include "base/cut_text.h"
#include "base/files.h"
#include "launch.h"

namespace cli {
namespace {

constexpr std::size_t kChunk = std::size_t{1} << 16;

// Reads up to `size` bytes and returns how many; 0 at the end.
std::size_t read_standard_input(char* there, std::size_t size) {
  ssize_t count = 0;
  do {
    count = ::read(STDIN_FILENO, there, size);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    throw std::runtime_error("standard input: cannot be read: " + std::generic_category().message(errno));
  }
  return static_cast<std::size_t>(count);
}

}  // namespace

InputTexts::InputTexts(InputOptions options) : options_(std::move(options)) {
  if (options_.file == "-") return;
  file_ =
      std::make_unique<headway::internal::InputFile>(options_.file, "", headway::internal::ReadOptions{.pipes = true});
}

bool InputTexts::fill() {
  buffer_.erase(0, position_);
  searched_ -= position_;
  position_ = 0;
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kChunk);
  const std::size_t count =
      file_ ? file_->read(buffer_.data() + before, kChunk) : read_standard_input(buffer_.data() + before, kChunk);
  buffer_.resize(before + count);
  at_end_ = count == 0;
  return count > 0;
}

std::string InputTexts::about_text() const {
  const std::string where = options_.file == "-" ? "" : options_.file + ": ";
  const std::string which =
      !options_.end ? "the text" : (*options_.end == '\n' ? "line " : "text ") + std::to_string(number_);
  return where + which + " is longer than " + std::to_string(kLongestText >> 20) + " MiB";
}

std::size_t InputTexts::find_end() const {
  return options_.end ? buffer_.find(*options_.end, searched_) : std::string::npos;
}

// Drops what is left of a text that was shortened; false where its end is not there yet.
bool InputTexts::skip_rest() {
  const std::size_t end = find_end();
  position_ = searched_ = end == std::string::npos ? buffer_.size() : end + 1;
  skipping_ = end == std::string::npos && !at_end_;
  return !skipping_;
}

// Takes the first part of a long text.
bool InputTexts::take_long(std::string& text, std::string_view available) {
  const bool begins = !goes_on_;
  const bool in_parts = options_.long_texts == LongTexts::in_parts;
  if (begins) {
    ++number_;
    if (options_.long_texts == LongTexts::refused) throw std::runtime_error(about_text());
    std::cout.flush();
    std::cerr << options_.command << ": " << about_text()
              << (in_parts ? ", and is read in parts" : "; what comes after is left out") << std::endl;
  }
  text = available.substr(0, headway::internal::cut_place(available, in_parts ? kLongestPart : kLongestText));
  position_ += text.size();
  searched_ = std::max(searched_, position_);
  skipping_ = !in_parts;
  goes_on_ = in_parts;
  return true;
}

bool InputTexts::take(std::string& text) {
  if (skipping_ && !skip_rest()) return false;
  std::size_t end = find_end();
  const std::string_view available =
      std::string_view(buffer_).substr(position_, end == std::string::npos ? end : end - position_);
  if (available.size() > (goes_on_ ? kLongestPart : kLongestText)) return take_long(text, available);
  if (end == std::string::npos) {
    searched_ = buffer_.size();
    if (!at_end_ || available.empty()) return false;
    end = buffer_.size();
  }
  text = available;
  position_ = searched_ = std::min(end + 1, buffer_.size());
  if (options_.end == '\n' && text.ends_with('\r')) text.pop_back();
  if (!goes_on_) ++number_;
  goes_on_ = false;
  return true;
}

bool InputTexts::is_waiting() const {
  pollfd input = {file_ ? file_->descriptor() : STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 0;
}

std::vector<std::string> InputTexts::next(std::size_t most) {
  std::vector<std::string> texts;
  std::string text;
  std::size_t bytes = 0;
  continues_ = goes_on_;
  while (texts.size() < most && bytes < kLongestText) {
    if (take(text)) {
      bytes += text.size() + options_.bytes_beside;
      texts.push_back(std::move(text));
      if (goes_on_) break;
      continue;
    }
    if (at_end_ || (!texts.empty() && is_waiting())) break;
    fill();
  }
  return texts;
}

std::string read_text(const std::string& file, std::size_t most) {
  if (file != "-") return headway::internal::read_whole_file(file, "", {.limit = most, .pipes = true});
  std::string text;
  std::size_t count = 0;
  do {
    const std::size_t before = text.size();
    text.resize(before + kChunk);
    count = read_standard_input(text.data() + before, kChunk);
    text.resize(before + count);
    if (text.size() > most) {
      throw std::runtime_error("standard input: has more than " + std::to_string(most >> 20) + " MiB");
    }
  } while (count > 0);
  return text;
}

std::vector<std::string> read_lines(const std::string& file) {
  InputTexts input({.file = file});
  std::vector<std::string> lines;
  for (auto more = input.next(kChunk); !more.empty(); more = input.next(kChunk)) {
    lines.insert(lines.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
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

bool is_terminal(int descriptor) { return launch().size == 1 && headway::internal::is_terminal(descriptor); }

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

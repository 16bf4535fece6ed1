// Reading texts, writing files and JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_text.h"
#include "base/terminal.h"

namespace cli {

// Texts from standard input, as many at a time as are available, so that a slow writer gets answers in between.
class InputTexts {
 public:
  // Texts end with `end`, "\n" or "\0"; with "\n" a "\r" before it is left out.
  explicit InputTexts(char end = '\n') : end_(end) {}
  // At least one and at most `most` texts; none at the end of the input.
  std::vector<std::string> next(std::size_t most);

 private:
  bool fill();
  bool take(std::string& text);

  char end_;
  std::string buffer_ = {};
  std::size_t position_ = 0;  // of the next text
  std::size_t searched_ = 0;  // no end is before this
  bool at_end_ = false;
};

// All lines of a file, or of standard input for "-".
std::vector<std::string> read_lines(const std::string& file);

// Writes the text to the file atomically, or throws and leaves the file unchanged; "-" is standard output.
void write_file(const std::string& file, std::string_view text);

using headway::internal::is_terminal;
using headway::internal::json_number;
using headway::internal::json_string;
using headway::internal::terminal_width;
using headway::internal::visible_text;
using headway::internal::visible_token;

// A number with so many digits behind the point.
std::string fixed(double value, int digits);

// The words with the separator between them.
std::string joined(const std::vector<std::string>& words, const std::string& separator);

// The text on one line: line ends become spaces.
std::string one_line(std::string text);
// A text for standard output: where that is a terminal its control characters are written out, else it stays as it is.
std::string shown_text(std::string text);
// The same on one line.
std::string shown_line(std::string text);

// A word as a shell takes it for itself: in quotes where it has other characters than those of plain names.
std::string shell_quoted(const std::string& word);

// "1 pair", "2 pairs".
std::string count_of(std::int64_t count, const std::string& noun);

}  // namespace cli

// Reading texts, writing files and JSON.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "base/json_text.h"
#include "base/terminal.h"

namespace cli {

// A text of a file or of standard input that is longer than this is a long one, in bytes. Texts are computed together
// up to this size, too, so that memory does not grow with the input.
constexpr std::size_t kLongestText = std::size_t{1} << 20;
// The parts of a long one, in bytes: small, so that answers flow.
constexpr std::size_t kLongestPart = std::size_t{1} << 14;

// What is done with a long text. Standard error says so, once for each.
enum class LongTexts {
  in_parts,   // it is cut between sentences, words or characters
  shortened,  // its first part of kLongestText counts, for models that read less than that of any text
  refused,    // it is an error
};

struct InputOptions {
  LongTexts long_texts = LongTexts::refused;
  // Of a text, "\n" or "\0"; with "\n" a "\r" before it is left out. Without one, all of the input is one text.
  std::optional<char> end = '\n';
  std::size_t bytes_beside = 0;  // memory that each text takes beside its own bytes
  std::string file = "-";        // "-" is standard input
  std::string command = {};      // begins notes: "headway translate"
};

// Texts as many at a time as are available, so that a slow writer gets answers in between.
class InputTexts {
 public:
  explicit InputTexts(InputOptions options);
  // At least one and at most `most` texts; none at the end of the input.
  std::vector<std::string> next(std::size_t most);
  // Whether the first of the last texts continues the last one before, and whether the last goes on in the next call.
  bool continues() const { return continues_; }
  bool goes_on() const { return goes_on_; }
  // Whether next() would return without waiting for a slow writer, who may be in the middle of a text.
  bool is_ready() const { return at_end_ || find_end() != std::string::npos || !is_waiting(); }

 private:
  bool fill();
  std::size_t find_end() const;
  bool skip_rest();
  bool take(std::string& text);
  bool take_long(std::string& text, std::string_view available);
  bool is_waiting() const;
  std::string about_text() const;

  InputOptions options_;
  std::unique_ptr<headway::internal::InputFile> file_ = {};  // none: standard input
  std::string buffer_ = {};
  std::size_t position_ = 0;  // of the next text
  std::size_t searched_ = 0;  // no end is before this
  std::int64_t number_ = 0;   // of the last text that has begun, from 1
  bool at_end_ = false;
  bool continues_ = false;
  bool goes_on_ = false;
  bool skipping_ = false;  // what is left of a text that was shortened
};

// All of a file, or of standard input for "-", at most `most` bytes; more are an error.
std::string read_text(const std::string& file, std::size_t most);

// All lines of a file, or of standard input for "-"; a line longer than kLongestText is an error.
std::vector<std::string> read_lines(const std::string& file);

// Writes the text to the file atomically, or throws and leaves the file unchanged; "-" is standard output.
void write_file(const std::string& file, std::string_view text);

using headway::internal::json_number;
using headway::internal::json_string;
using headway::internal::terminal_width;
using headway::internal::visible_text;
using headway::internal::visible_token;

// Whether a person is there. Launchers of ranks put terminals of their own between a rank and a file: no person is.
bool is_terminal(int descriptor);

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

// The lines of a text file, plain or the one text inside a .zip, read as they are needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace headway::inline v0::internal {

class LineReader {
 public:
  // Opens the file; an Error names it where it cannot be opened or a .zip holds no text, or more than one.
  explicit LineReader(const std::filesystem::path& file);
  ~LineReader();

  // Reads the next line without its end ("\n" or "\r\n"); false after the last one. A byte order mark at the file's
  // start is skipped.
  bool next(std::string& line);

  // The number of the line that was read last, from 1.
  std::int64_t number() const { return number_; }
  // "pairs: FILE: line N: ", for messages about the last line.
  std::string about_line() const;

 private:
  class Bytes;
  class PlainBytes;
  class ZippedBytes;

  bool fill();

  std::filesystem::path file_;
  std::unique_ptr<Bytes> bytes_;
  std::string buffer_ = {};
  std::size_t position_ = 0;  // in buffer_
  std::int64_t number_ = 0;
};

}  // namespace headway::inline v0::internal

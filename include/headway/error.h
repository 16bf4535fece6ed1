// What Headway throws: an Error, or one of the two kinds of it that a program may want to handle in another way.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

// Thrown for every invalid argument; the message names the argument, its value and what was expected.
class HEADWAY_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Thrown where the system refuses a file or a directory: it is missing, may not be read, the disk is full.
class HEADWAY_API FileError : public Error {
 public:
  FileError(const std::string& message, std::filesystem::path path, int code)
      : Error(message), path_(std::move(path)), code_(code) {}

  const std::filesystem::path& path() const { return path_; }
  // The system's number of the problem, such as ENOENT.
  int code() const { return code_; }

 private:
  std::filesystem::path path_;
  int code_;
};

// Thrown where memory for tensors or for intermediate results cannot be had.
class HEADWAY_API MemoryError : public Error {
 public:
  using Error::Error;
};

}  // namespace v0
}  // namespace headway

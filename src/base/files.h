// Reading and writing files, used by all libraries. Errors begin with `who`, unless it is empty, and name the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"

namespace headway::inline v0::internal {

// Throws a FileError with the parts joined; `code` is the system's number of the problem.
template <typename... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail_on_file(const std::filesystem::path& file, int code,
                                                         const Parts&... parts) {
  throw FileError(join_parts(parts...), file, code);
}

// Throws a FileError where there is no such directory, or no way to it.
void check_directory(const std::filesystem::path& directory);

struct ReadOptions {
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // in bytes; a larger file is refused
  bool pipes = false;  // also read what is not a regular file, as a shell's <(command)
};

// An open file, closed at the end of the scope.
class InputFile {
 public:
  // Opens a regular file, or also a pipe or a device where the options say so. Others are refused without waiting.
  explicit InputFile(const std::filesystem::path& file, std::string_view who = {}, const ReadOptions& options = {});
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  // Reads up to `size` bytes and returns how many; 0 at the end.
  std::size_t read(char* there, std::size_t size);
  // The size that the system reports, which is a hint: for some files and for pipes it is 0.
  std::size_t size() const { return size_; }
  int descriptor() const { return descriptor_; }

 private:
  std::filesystem::path file_;
  std::string who_;
  int descriptor_ = -1;
  std::size_t size_ = 0;
};

// All bytes of a regular file.
std::string read_whole_file(const std::filesystem::path& file, std::string_view who = {},
                            const ReadOptions& options = {});

// A new name in a directory that nobody can foresee, so that nobody can put a link of that name there first;
// remove_stray_files() knows such names.
std::string temporary_name(const std::filesystem::path& directory);

// Makes the names in a directory survive a power failure. They are in place already, and not every file system supports
// this: a failure is ignored.
void flush_names(const std::filesystem::path& directory);

// A file that is written under a temporary name, which cannot be guessed, and then renamed atomically. Until commit()
// has returned, and when anything fails, the old file is unchanged; without commit() the temporary file is removed. A
// symbolic link of that name is replaced, not followed; a directory or a device is refused. A file that is replaced
// keeps its permissions.
class FileReplacement {
 public:
  explicit FileReplacement(const std::filesystem::path& target, std::string_view who = {});
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  void write(std::string_view bytes);
  // Writes over the first bytes of what was written, for a header that is known last.
  void write_at_start(std::string_view bytes);
  // Flushes the file to the disk, then renames it.
  void commit();

 private:
  [[noreturn]] void fail_with_errno(const char* what) const;

  std::filesystem::path target_;
  std::string who_;
  std::string temporary_;
  int file_ = -1;
  bool moved_ = false;
};

// FileReplacement for bytes in memory.
void replace_file(const std::filesystem::path& file, std::string_view bytes, std::string_view who = {});

// Creates a directory and its parents.
void make_directories(const std::filesystem::path& directory, std::string_view who = {});

// Fills a new directory under a temporary name by `fill`, then renames it; an old directory of that name is replaced,
// and stays where anything fails. A symbolic link of that name is replaced, not followed.
void replace_directory(const std::filesystem::path& directory,
                       const std::function<void(const std::filesystem::path&)>& fill, std::string_view who = {});

// Removes the temporary files and directories of processes that were killed while they wrote into a directory; a
// missing directory is ignored. The caller must hold the directory's lock.
void remove_stray_files(const std::filesystem::path& directory);

}  // namespace headway::inline v0::internal

// Reading and writing whole files, used by all libraries. Errors begin with `who`, unless it is empty, and name the
// file.
#pragma once

#include <cstddef>
#include <filesystem>
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

// All bytes of a regular file.
std::string read_whole_file(const std::filesystem::path& file, std::string_view who = {},
                            const ReadOptions& options = {});

// A file that is written under a temporary name and then renamed atomically. Until commit() has returned, and when
// anything fails, the old file is unchanged; without commit() the temporary file is removed. A symbolic link of that
// name is replaced, not followed; a directory or a device is refused.
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
  void sync_directory() const;

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

// Removes the temporary files of processes that were killed while they wrote into a directory; a missing directory is
// ignored. The caller must hold the directory's lock.
void remove_stray_files(const std::filesystem::path& directory);

}  // namespace headway::inline v0::internal

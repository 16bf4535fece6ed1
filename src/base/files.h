// Whole files in and out: the one way to write a file, and the one to read it. Errors begin with `who`, unless it is
// empty, and name the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

struct ReadOptions {
  std::size_t limit = std::numeric_limits<std::size_t>::max();  // in bytes; a larger file is refused
  bool pipes = false;  // also read what is not a regular file, as a shell's <(command)
};

// All bytes of a regular file.
std::string read_whole_file(const std::filesystem::path& file, std::string_view who = {},
                            const ReadOptions& options = {});

// A file that is written beside its place and put there at once. Until commit() has returned, and when anything fails,
// the old file is as it was; without commit() nothing is left behind. A symbolic link of that name is replaced, not
// followed; where a directory or a device stands, nothing is written.
class FileReplacement {
 public:
  explicit FileReplacement(const std::filesystem::path& target, std::string_view who = {});
  ~FileReplacement();
  FileReplacement(const FileReplacement&) = delete;
  FileReplacement& operator=(const FileReplacement&) = delete;

  void write(std::string_view bytes);
  // Puts the file on the disk, then into its place.
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

// FileReplacement for bytes that are all there.
void replace_file(const std::filesystem::path& file, std::string_view bytes, std::string_view who = {});

// Makes a directory and those that it lies in.
void make_directories(const std::filesystem::path& directory, std::string_view who = {});

// Removes the temporary files of processes that were killed while they wrote into a directory; where there is no
// directory, nothing. Only for whoever holds the directory's lock.
void remove_stray_files(const std::filesystem::path& directory);

}  // namespace headway::inline v0::internal

// Files written beside their directory's old ones, then moved, with a way back.
#include "base/staged_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/directory_entries.h"
#include "base/file_faults.h"
#include "base/files.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

// A new directory inside another one, removed with all that is in it. Its name is that of a temporary file, so that
// remove_stray_files() finds it.
class StagingDirectory {
 public:
  explicit StagingDirectory(const fs::path& parent) {
    path_ = temporary_name(parent);
    if (!file_call_fails("mkdir") && ::mkdir(path_.c_str(), 0777) == 0) return;
    const int problem = errno;
    fail_on_file(parent, problem, parent.string(),
                 ": no directory can be made in it: ", std::generic_category().message(problem));
  }
  ~StagingDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  StagingDirectory(const StagingDirectory&) = delete;
  StagingDirectory& operator=(const StagingDirectory&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

int rename_file(const fs::path& from, const fs::path& to) {
  return file_call_fails("rename") ? -1 : std::rename(from.c_str(), to.c_str());
}

// Moves files into a directory; without keep() its destructor moves the old ones back.
class Move {
 public:
  Move(const fs::path& directory, const fs::path& old) : directory_(directory), old_(old) {}
  ~Move() {
    if (kept_) return;
    for (const auto& [name, replaced] : moved_) {
      // What cannot be moved back stays: there is nobody to ask.
      [[maybe_unused]] const int ignored = replaced ? std::rename((old_ / name).c_str(), (directory_ / name).c_str())
                                                    : ::unlink((directory_ / name).c_str());
    }
  }
  Move(const Move&) = delete;
  Move& operator=(const Move&) = delete;

  void take(const fs::path& from, const std::string& name) {
    const fs::path to = directory_ / name;
    struct stat status = {};
    const bool replaced = ::lstat(to.c_str(), &status) == 0;
    check(!replaced || !S_ISDIR(status.st_mode), to.string(), ": is a directory, expected a file");
    // A replaced file keeps its permissions; some file systems have none.
    if (replaced && S_ISREG(status.st_mode)) static_cast<void>(::chmod((from / name).c_str(), status.st_mode & 0777));
    // A second name for the old file. File systems without such names lose the old one for a moment.
    const bool kept = replaced && !file_call_fails("link") && ::link(to.c_str(), (old_ / name).c_str()) == 0;
    if (replaced && !kept && rename_file(to, old_ / name) != 0) fail_with_errno(to);
    moved_.emplace_back(name, replaced);
    if (rename_file(from / name, to) != 0) fail_with_errno(to);
  }
  void keep() { kept_ = true; }

 private:
  [[noreturn]] static void fail_with_errno(const fs::path& file) {
    const int problem = errno;
    fail_on_file(file, problem, file.string(), ": cannot be replaced: ", std::generic_category().message(problem));
  }

  const fs::path& directory_;
  const fs::path& old_;
  std::vector<std::pair<std::string, bool>> moved_ = {};  // the name, and whether an old file was there
  bool kept_ = false;
};

std::vector<std::string> names_of_files(const fs::path& directory) {
  std::error_code problem;
  std::vector<std::string> names = directory_entries(directory, problem);
  if (problem) {
    fail_on_file(directory, problem.value(), directory.string(), ": cannot be listed: ", problem.message());
  }
  std::erase_if(names, [&](const std::string& name) { return fs::is_directory(directory / name); });
  std::sort(names.begin(), names.end());
  return names;
}

// Messages name the files by the place that they were meant for.
std::string with_final_places(std::string text, const std::string& staging, const std::string& directory) {
  for (std::size_t at = text.find(staging); at != std::string::npos; at = text.find(staging, at + directory.size())) {
    text.replace(at, staging.size(), directory);
  }
  return text;
}

}  // namespace

void replace_files(const fs::path& directory, FunctionRef<void(const fs::path&)> write) {
  make_directories(directory);
  const StagingDirectory staging(directory), old(directory);
  const std::string from = staging.path().string(), to = directory.string();
  try {
    write(staging.path());
  } catch (const FileError& error) {
    throw FileError(with_final_places(error.what(), from, to), with_final_places(error.path().string(), from, to),
                    error.code());
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {
    throw Error(with_final_places(error.what(), from, to));
  }
  Move move(directory, old.path());
  for (const std::string& name : names_of_files(staging.path())) move.take(staging.path(), name);
  move.keep();
  flush_names(directory);
}

}  // namespace headway::inline v0::internal

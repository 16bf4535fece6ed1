#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/check.h"
#include "base/files.h"

namespace headway::inline v0::internal {
namespace {

// A process that was killed may have left a copy of itself (see text/child_process.h), which ends a moment later.
constexpr std::chrono::milliseconds kPatience{2000};
constexpr std::chrono::milliseconds kPause{10};

// False on a file system that does not support locks: there the directory is not locked.
bool is_locked_by_others(int file) {
  for (auto waited = kPause; ::flock(file, LOCK_EX | LOCK_NB) != 0; waited += kPause) {
    if (errno != EWOULDBLOCK) return false;
    if (waited > kPatience) return true;
    std::this_thread::sleep_for(kPause);
  }
  return false;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, std::string_view who, std::string_view busy) {
  make_directories(directory, who);
  file_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file_ >= 0 && is_locked_by_others(file_)) {
    ::close(file_);
    fail(who, who.empty() ? "" : ": ", directory.string(), ": ", busy);
  }
}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace headway::inline v0::internal

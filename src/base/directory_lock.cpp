#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "base/files.h"

namespace headway::inline v0::internal {

DirectoryLock::DirectoryLock(const std::filesystem::path& directory, std::string_view who, std::string_view busy) {
  make_directories(directory, who);
  file_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems do not support locks; there the directory is not locked.
  if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    fail(who, who.empty() ? "" : ": ", directory.string(), ": ", busy);
  }
}

DirectoryLock::~DirectoryLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace headway::inline v0::internal

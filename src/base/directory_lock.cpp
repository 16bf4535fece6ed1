// One run at a time in a directory.
#include "base/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "base/check.h"

namespace headway::inline v0::internal {

namespace fs = std::filesystem;

OutputLock::OutputLock(const fs::path& directory) {
  std::error_code problem;
  fs::create_directories(directory, problem);
  std::error_code ignored;
  check(fs::is_directory(directory, ignored), "train_translation: output ", directory.string(),
        ": the directory cannot be made: ", problem ? problem.message() : std::string("there is a file of that name"));
  file_ = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // Some file systems have no such locks; there the caller is trusted.
  if (file_ >= 0 && ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file_);
    fail("train_translation: output ", directory.string(), ": another run is training there");
  }
}

OutputLock::~OutputLock() {
  if (file_ >= 0) ::close(file_);
}

}  // namespace headway::inline v0::internal

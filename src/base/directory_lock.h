// The directory of a run.
#pragma once

#include <filesystem>

namespace headway::inline v0::internal {

// A model directory that this run has for itself, as long as the object lives; the system lets go of it when the
// process dies, however it dies.
class OutputLock {
 public:
  // Makes the directory where there is none; throws where another run holds it.
  explicit OutputLock(const std::filesystem::path& directory);
  ~OutputLock();
  OutputLock(const OutputLock&) = delete;
  OutputLock& operator=(const OutputLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace headway::inline v0::internal

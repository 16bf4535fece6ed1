// A directory that one process has for itself.
#pragma once

#include <filesystem>
#include <string_view>

namespace headway::inline v0::internal {

// Holds the directory as long as the object lives; the system lets go of it when the process dies, however it dies.
class DirectoryLock {
 public:
  // Makes the directory where there is none. Where another holder has it, throws "WHO: DIRECTORY: BUSY"; an empty `who`
  // is left out.
  DirectoryLock(const std::filesystem::path& directory, std::string_view who, std::string_view busy);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace headway::inline v0::internal

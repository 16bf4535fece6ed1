// Exclusive use of a directory by one process.
#pragma once

#include <filesystem>
#include <string_view>

namespace headway::inline v0::internal {

// Locks the directory for the lifetime of the object; the system releases the lock when the process ends in any way.
class DirectoryLock {
 public:
  // Creates the directory where it is missing. Where it is locked already, throws "WHO: DIRECTORY: BUSY"; an empty
  // `who` is left out.
  DirectoryLock(const std::filesystem::path& directory, std::string_view who, std::string_view busy);
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

 private:
  int file_ = -1;
};

}  // namespace headway::inline v0::internal

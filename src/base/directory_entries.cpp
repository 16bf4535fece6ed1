#include "base/directory_entries.h"

#include <dirent.h>

#include <cerrno>
#include <memory>
#include <string_view>

namespace headway::inline v0::internal {

std::vector<std::string> directory_entries(const std::filesystem::path& directory, std::error_code& problem) {
  struct Closer {
    void operator()(DIR* opened) const { ::closedir(opened); }
  };
  problem.clear();
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Closer> opened(::opendir(directory.c_str()));
  errno = opened ? 0 : errno;
  while (const dirent* entry = opened ? ::readdir(opened.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (errno != 0) problem.assign(errno, std::generic_category());
  return names;
}

}  // namespace headway::inline v0::internal

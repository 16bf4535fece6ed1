// Directories put in place as a whole.
#include "training/staged_directory.h"

#include <system_error>

#include "base/check.h"
#include "base/files.h"

namespace headway::inline v0::internal {

void fill_directory(const std::filesystem::path& directory,
                    const std::function<void(const std::filesystem::path&)>& fill) {
  std::error_code ignored;
  const std::filesystem::path unfinished = directory.string() + ".tmp";
  std::filesystem::remove_all(unfinished, ignored);
  std::filesystem::create_directories(unfinished, ignored);  // where it fails, writing into it says so
  fill(unfinished);
  std::filesystem::remove_all(directory, ignored);
  std::error_code problem;
  std::filesystem::rename(unfinished, directory, problem);
  if (!problem) return;
  fail_on_file(directory, problem.value(), directory.string(), ": cannot be put in place: ", problem.message());
}

}  // namespace headway::inline v0::internal

#include "text/tokenizer/old_files.h"

#include "base/check.h"

namespace headway::inline v0::internal {

bool has_old_files(const std::filesystem::path&) { return false; }

OldTokenizer read_old_files(const std::filesystem::path& directory, const Json&, const Json&, const Json&) {
  fail(directory.string(), ": not yet");
}

}  // namespace headway::inline v0::internal

// Several files of a directory that change together.
#pragma once

#include <filesystem>

#include "base/function_ref.h"

namespace headway::inline v0::internal {

// Replaces files of a directory, which is created where it is missing, by those that `write` puts into the directory
// that it is given. They are written, flushed to the disk and then moved: where anything fails, an Error names the
// file, and the directory has all of its old files and none of the new ones. Other files of the directory stay.
void replace_files(const std::filesystem::path& directory, FunctionRef<void(const std::filesystem::path&)> write);

}  // namespace headway::inline v0::internal

// A directory that is never seen half written.
#pragma once

#include <filesystem>
#include <functional>

namespace headway::inline v0::internal {

// Fills a directory under another name by `fill`, then renames it; an old directory of that name is replaced.
void fill_directory(const std::filesystem::path& directory,
                    const std::function<void(const std::filesystem::path&)>& fill);

}  // namespace headway::inline v0::internal

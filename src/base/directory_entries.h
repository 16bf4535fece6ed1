// What is in a directory.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace headway::inline v0::internal {

// The names of all entries but "." and "..", in no order. Where memory runs out this throws std::bad_alloc, while
// std::filesystem::directory_iterator of libstdc++ ends the process.
std::vector<std::string> directory_entries(const std::filesystem::path& directory, std::error_code& problem);

}  // namespace headway::inline v0::internal

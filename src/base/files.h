// Whole files in and out.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// All bytes of a file; an Error begins with `who` and names the file.
std::string read_whole_file(const std::filesystem::path& file, std::string_view who);

// Puts the bytes in the file's place at once or, with an Error, not at all.
void replace_file(const std::filesystem::path& file, std::string_view bytes, std::string_view who);

}  // namespace headway::inline v0::internal

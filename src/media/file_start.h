// What a file that is not of the expected kind begins with, in words.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// "it is text, \"hello wor...\"", "it begins with the bytes 50 4b 03 04".
std::string described_start(std::string_view bytes);

}  // namespace headway::inline v0::internal

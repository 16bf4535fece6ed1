// Digests of bytes.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// SHA-256 of the bytes, 32 of them.
std::string sha256(std::string_view bytes);

}  // namespace headway::inline v0::internal

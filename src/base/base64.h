// Bytes as text.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// The bytes in base64 (RFC 4648), padded with "=".
std::string base64(std::string_view bytes);

}  // namespace headway::inline v0::internal

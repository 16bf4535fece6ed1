// Fast checksums, which notice damage and not intent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// XXH64 of the bytes with the seed 0, as xxhsum -H1 computes it.
std::uint64_t xxh64(std::string_view bytes);

// The same in 16 hexadecimal digits.
std::string xxh64_text(std::string_view bytes);

}  // namespace headway::inline v0::internal

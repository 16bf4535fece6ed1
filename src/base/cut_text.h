// Where long texts are cut.
#pragma once

#include <cstddef>
#include <string_view>

namespace headway::inline v0::internal {

// How many bytes of a text make its first part of at most `most`, which is at least 8: all of them where they are not
// more, else up to the white space after the last sentence in the second half, or after the last word in it, or up to
// the end of the last character. Looks at no more than `most` bytes.
std::size_t cut_place(std::string_view text, std::size_t most);

}  // namespace headway::inline v0::internal

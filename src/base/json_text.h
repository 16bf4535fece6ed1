// JSON's strings and numbers as text.
#pragma once

#include <string>
#include <string_view>

namespace headway::inline v0::internal {

// A JSON string with its quotes and escapes; what is not UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);

// The same for a script inside a page: "<" is escaped too, so that no text can end the script, and so are the
// separators U+2028 and U+2029, which JavaScript takes for line ends.
std::string json_script_string(std::string_view text);

// The shortest number that reads back as the same double; null where it is not finite.
std::string json_number(double value);

}  // namespace headway::inline v0::internal

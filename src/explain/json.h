// JSON's strings and numbers, written directly: a record has millions of numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A JSON string with its quotes. "<" is escaped, so that no text can end a page's script; so are the separators
// that JavaScript takes for line ends. Invalid UTF-8 becomes U+FFFD.
std::string json_string(std::string_view text);
// A JSON array of strings.
std::string json_strings(const std::vector<std::string>& texts);
// Nested arrays, one per dimension, of the shortest numbers that read back as the same float32.
void append_json_numbers(std::string& json, const Tensor& values);

}  // namespace headway::inline v0::internal

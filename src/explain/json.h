// JSON's arrays, written directly: a record has millions of numbers.
#pragma once

#include <string>
#include <vector>

#include "base/json_text.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A JSON array of strings, each as json_script_string() has it.
std::string json_strings(const std::vector<std::string>& texts);
// Nested arrays, one per dimension, of the shortest numbers that read back as the same float32.
void append_json_numbers(std::string& json, const Tensor& values);

}  // namespace headway::inline v0::internal

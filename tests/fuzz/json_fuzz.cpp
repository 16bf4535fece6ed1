// Feeds bytes to the reader of JSON. What it accepts must come back from its own text; what it does not must be an
// Error that names the text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/json.h"
#include "headway/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway::internal::parse_json;
  const std::string_view bytes(reinterpret_cast<const char*>(input), size);
  const int indent = static_cast<int>(size % 3) - 1;
  std::string text;
  try {
    text = parse_json(bytes, "fuzz", {.depth = 32, .comments = size % 2 == 1}).text(indent);
  } catch (const headway::Error& error) {
    if (!std::string_view(error.what()).starts_with("fuzz: ")) std::abort();
    return 0;
  }
  if (parse_json(text, "again").text(indent) != text) std::abort();
  return 0;
}

// Feeds bytes to the reader of generation_config.json, and of the same fields in config.json. What it accepts makes
// options and rules that hold for any scores; what it does not must be an Error.
#include <string>
#include <vector>

#include "headway/error.h"
#include "input_file.h"
#include "tasks/generation_defaults.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  namespace internal = headway::internal;
  const std::string text(reinterpret_cast<const char*>(input), size);
  try {
    const bool old = size % 2 == 1;
    const internal::GenerationDefaults defaults =
        internal::generation_defaults({}, old ? text : std::string(), old ? std::string() : text);
    const internal::GenerationOptions options = internal::resolved_options("fuzz", {}, defaults);
    require(options.beam >= 1 && options.beam <= 1024);
    require(internal::most_new_tokens({}, defaults, 5, 32, 20) <= 28);
    const std::vector<std::int64_t> tokens = {1, 2, 3, 1, 2};
    std::vector<float> scores(8, 0.5f);
    options.rules.apply({.tokens = tokens, .prompt_length = 2, .max_length = 6}, scores);
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}

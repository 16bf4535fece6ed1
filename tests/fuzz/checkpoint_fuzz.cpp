// Feeds bytes to the reader of checkpoints, as the newest of a directory. What it accepts is of the step that its name
// says; what it does not must be an Error.
#include "headway/error.h"
#include "headway/training.h"
#include "input_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  using headway_fuzz::require;
  static const headway_fuzz::InputDirectory directory;
  directory.write("step-00000003.safetensors", input, size);
  try {
    const auto checkpoint = headway::load_checkpoint(directory.path());
    require(checkpoint.has_value() && checkpoint->step == 3);
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
  return 0;
}

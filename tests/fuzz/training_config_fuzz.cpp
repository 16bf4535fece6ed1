// Feeds bytes to the readers of training configs. What they accept reads the same after it was written, and is checked
// or refused; what they do not accept must be an Error.
#include <string>

#include "base/files.h"
#include "headway/error.h"
#include "headway/fine_tuning.h"
#include "headway/translation_training.h"
#include "input_file.h"

namespace {

using headway_fuzz::InputDirectory;
using headway_fuzz::require;

template <typename Config>
void read(const InputDirectory& directory) {
  try {
    const Config config = Config::load(directory.path() / "config.json");
    const std::string text = config.to_json();
    headway::internal::replace_file(directory.path() / "again.json", text);
    require(Config::load(directory.path() / "again.json").to_json() == text);
    config.check();
  } catch (const headway::Error&) {
    // what a file says is refused by name
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* input, std::size_t size) {
  static const InputDirectory directory;
  directory.write("config.json", input, size);
  read<headway::TranslationTrainingConfig>(directory);
  read<headway::FineTuneConfig>(directory);
  return 0;
}

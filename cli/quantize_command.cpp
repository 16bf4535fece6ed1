// headway quantize
#include <iostream>
#include <memory>

#include "headway/quantization.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

std::string megabytes(std::int64_t bytes) { return fixed(static_cast<double>(bytes) / 1e6, 1) + " MB"; }

struct Quantize {
  std::string directory = {};
  std::string output = {};
  int threads = 0;
  bool json = false;

  int run() const {
    use_threads(threads);
    const headway::QuantizedSizes sizes = headway::quantize(directory, output);
    if (json) {
      std::cout << "{\"output\": " << json_string(output) << ", \"bytes_before\": " << sizes.before
                << ", \"bytes_after\": " << sizes.after << "}\n";
    } else {
      std::cout << output << ": weights of " << megabytes(sizes.after) << ", before " << megabytes(sizes.before)
                << '\n';
    }
    return kDone;
  }
};

}  // namespace

void add_quantize(Program& program) {
  CLI::App& command = program.add_command({"quantize", "Write a model directory with weights in 8 bits, for the CPU",
                                           "  headway quantize all-MiniLM-L6-v2 minilm-int8\n"
                                           "  headway quantize models/en-de en-de-int8\n"
                                           "  headway translate --model en-de-int8 \"Good morning!\""});
  const auto options = std::make_shared<Quantize>();
  command.add_option("DIR", options->directory, "Directory of a model of any family")->type_name("")->required();
  command.add_option("OUT", options->output, "The new directory, which must be missing or empty")
      ->type_name("")
      ->required();
  add_threads_option(command, options->threads);
  command.add_flag("--json", options->json, "Write a JSON object");
  program.on_run(command, [options] { return options->run(); });
}

}  // namespace cli

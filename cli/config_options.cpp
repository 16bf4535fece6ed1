#include "config_options.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <string_view>

#include "options.h"

namespace cli {
namespace {

// Set by SIGINT and SIGTERM: the run writes a checkpoint after its step and ends.
std::atomic<bool> stop_wanted = false;
static_assert(std::atomic<bool>::is_always_lock_free);
std::string stop_message;  // written by the handler, complete before the handler is set

extern "C" void want_stop(int signal) {
  stop_wanted = true;
  // A second signal ends the program at once.
  std::signal(signal, SIG_DFL);
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, stop_message.data(), stop_message.size());
}

// "learning_rate" as an option: --learning-rate. Program::run() takes underscores for dashes.
std::string option_name(const std::string& field) {
  std::string dashed = field;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return "--" + dashed;
}

}  // namespace

void ConfigOptions::add_to(CLI::App& command, const std::shared_ptr<ConfigOptions>& options,
                           const std::vector<headway::ConfigField>& fields) {
  command.add_option("--config", options->config, "JSON file with the fields below; options on the line win")
      ->type_name("FILE");
  command.add_flag("--resume", options->resume, "Go on from the newest checkpoint in OUTPUT/training");
  command.add_flag("--print-config", options->print_config, "Write the whole config as JSON and do nothing else");
  command.add_flag("--quiet", options->quiet, "Show no progress");
  command.add_flag("--json", options->json, "Write the result as a JSON object");
  add_threads_option(command, options->threads);
  for (const headway::ConfigField& field : fields) {
    const std::string usual = field.default_value.empty() ? "" : "; default: " + field.default_value;
    command
        .add_option_function<std::string>(
            option_name(field.name),
            [options, name = field.name](const std::string& value) { options->fields[name] = unguarded(value); },
            field.help + usual)
        ->type_name("VALUE")
        ->group("Config")
        ->take_last();  // so that a script may be called with other values
  }
}

headway::TrainingRunOptions ConfigOptions::begin(const std::string& command) const {
  use_threads(threads);
  stop_message = "\nheadway " + command + ": ending after this step; a second signal ends at once\n";
  std::signal(SIGINT, want_stop);
  std::signal(SIGTERM, want_stop);
  return {.resume = resume, .progress = quiet ? nullptr : &std::cerr, .should_stop = [] { return stop_wanted.load(); }};
}

}  // namespace cli

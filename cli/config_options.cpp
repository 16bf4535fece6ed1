#include "config_options.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <string_view>

#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

// The number of the signal, SIGINT or SIGTERM, after which the run writes a checkpoint and ends; 0: none came.
std::atomic<int> stop_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);
std::string stop_message;  // written by the handler, complete before the handler is set

extern "C" void want_stop(int signal) {
  stop_signal = signal;
  // A second signal of either kind ends the program at once.
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
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
  command
      .add_option_function<std::string>(
          "--resume",
          [options](const std::string& directory) {
            options->resume = true;
            options->resumed = unguarded(directory);
          },
          "Go on with the run in DIR/training, or in that of the output; its settings are known, and options change "
          "those that may change")
      ->type_name("DIR")
      ->expected(0, 1);
  command.add_flag("--print-config", options->print_config, "Write the whole config as JSON and do nothing else");
  command.add_flag("--quiet", options->quiet, "Show no progress");
  command.add_flag("--json", options->json, "Write the result as a JSON object");
  add_threads_option(command, options->threads);
  command
      .add_option(
          "--context-parallel", options->context_parallel,
          "So many ranks of mpirun or srun share the tokens of each batch, for sequences too long for one of them; "
          "default: 1")
      ->type_name("N");
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
  return {.resume = resume,
          .progress = quiet ? nullptr : &std::cerr,
          .should_stop = [] { return stop_signal != 0; },
          .ranks = headway::Communicator::world(),
          .context_parallel = context_parallel};
}

std::string RunReport::json() const {
  return "{\"output\": " + json_string(output.string()) + ", \"finished\": " + (finished ? "true" : "false") +
         ", \"last_step\": " + std::to_string(training.last_step) + saved_step +
         ", \"skipped_steps\": " + std::to_string(training.skipped_steps) +
         ", \"loss\": " + json_number(training.loss) + ", \"validations\": " + validations + test + "}";
}

void ConfigOptions::check_output(const std::filesystem::path& resumed, const std::filesystem::path& output) {
  if (resumed.lexically_normal() == output.lexically_normal()) return;
  throw UsageError("--resume names " + resumed.string() + ", and output is " + output.string());
}

std::string ConfigOptions::resuming(const std::string& command, const RunReport& report) {
  // A name that begins with a dash would be taken for an option.
  const std::string output = report.output.string();
  return program_name() + " " + command + " --resume " + shell_quoted(output.starts_with('-') ? "./" + output : output);
}

void ConfigOptions::await_others(const headway::Communicator& ranks) {
  std::vector<headway::Communicator::Sent> sent;
  std::vector<headway::Communicator::Received> received;
  if (ranks.rank() != 0) sent.push_back({.values = headway::Tensor::zeros({1}), .to = 0});
  for (int from = 1; from < ranks.size() && ranks.rank() == 0; ++from) {
    received.push_back({.values = headway::Tensor::zeros({1}), .from = from});
  }
  if (!ranks.is_alone()) ranks.start_messages(sent, received).wait();
}

int ConfigOptions::signalled() {
  const int signal = stop_signal;
  return kSignalled + (signal != 0 ? signal : SIGTERM);  // another rank had the signal
}

}  // namespace cli

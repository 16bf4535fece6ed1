// headway train
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <string_view>

#include "headway/translation_training.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTrainExamples = R"(  headway train --data deu-eng.zip --output model
  headway train --config run.json --epochs 3 --resume
  headway train --data pairs.tsv --width 128 --print-config > run.json
Ctrl-C writes a checkpoint and ends; --resume goes on from it to the same weights.)";

// Set by SIGINT and SIGTERM: the run writes a checkpoint after its step and ends.
std::atomic<bool> stop_wanted = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void want_stop(int signal) {
  stop_wanted = true;
  // A second signal ends the program at once.
  std::signal(signal, SIG_DFL);
  constexpr std::string_view kWord = "\nheadway train: ending after this step; a second signal ends at once\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, kWord.data(), kWord.size());
}

struct Train {
  std::string config = {};
  std::map<std::string, std::string> fields = {};  // given as flags, by the config's names
  bool resume = false;
  bool print_config = false;
  bool quiet = false;
  bool json = false;
  int threads = 0;

  int run() const;
};

void print(const headway::TranslationTrainingReport& report, const headway::TranslationTrainingConfig& config) {
  for (const std::string& file : report.training.unreadable) {
    std::cerr << "headway train: unreadable: " << file << std::endl;
  }
  if (!report.finished) {
    std::cout << "stopped after step " << report.training.last_step << "; headway train --resume goes on\n";
    return;
  }
  std::cout << config.output.string() << ": " << report.training.last_step << " steps";
  if (!report.validations.empty())
    std::cout << ", BLEU " << fixed(report.validations.back().bleu, 2) << " on the validation part";
  std::cout << '\n';
}

std::string json_of(const headway::TranslationTrainingReport& report,
                    const headway::TranslationTrainingConfig& config) {
  std::string validations;
  for (const headway::ValidationReport& validation : report.validations) {
    std::string directions;
    for (const double bleu : validation.directions) directions += (directions.empty() ? "" : ", ") + json_number(bleu);
    validations += (validations.empty() ? "{\"step\": " : ", {\"step\": ") + std::to_string(validation.step) +
                   ", \"loss\": " + json_number(validation.loss) + ", \"bleu\": " + json_number(validation.bleu) +
                   ", \"directions\": [" + directions + "]}";
  }
  return "{\"output\": " + json_string(config.output.string()) +
         ", \"finished\": " + (report.finished ? "true" : "false") +
         ", \"last_step\": " + std::to_string(report.training.last_step) +
         ", \"skipped_steps\": " + std::to_string(report.training.skipped_steps) +
         ", \"loss\": " + json_number(report.training.loss) + ", \"validations\": [" + validations + "]}";
}

int Train::run() const {
  headway::TranslationTrainingConfig settings;
  if (!config.empty()) settings = headway::TranslationTrainingConfig::load(config);
  for (const auto& [field, value] : fields) settings.set(field, value);
  if (print_config) {
    // A config may be written on a machine without its GPU.
    headway::TranslationTrainingConfig elsewhere = settings;
    if (headway::Device::is_name(settings.device)) elsewhere.device = "cpu";
    elsewhere.check();
    std::cout << settings.to_json();
    return kDone;
  }
  settings.check();
  use_threads(threads);
  std::signal(SIGINT, want_stop);
  std::signal(SIGTERM, want_stop);
  const headway::TranslationTrainingReport report = headway::train_translation(
      settings,
      {.resume = resume, .progress = quiet ? nullptr : &std::cerr, .should_stop = [] { return stop_wanted.load(); }});
  if (json) {
    std::cout << json_of(report, settings) << '\n';
  } else {
    print(report, settings);
  }
  return kDone;
}

// "learning_rate" as an option: --learning-rate. Program::run() takes underscores for dashes.
std::string option_name(const std::string& field) {
  std::string dashed = field;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return "--" + dashed;
}

}  // namespace

void add_train(Program& program) {
  CLI::App& command = program.add_command({"train", "Train a translator from sentence pairs", kTrainExamples});
  const auto options = std::make_shared<Train>();
  command.add_option("--config", options->config, "JSON file with the fields below; options on the line win")
      ->type_name("FILE");
  command.add_flag("--resume", options->resume, "Go on from the newest checkpoint in OUTPUT/training");
  command.add_flag("--print-config", options->print_config, "Write the whole config as JSON and do nothing else");
  command.add_flag("--quiet", options->quiet, "Show no progress");
  command.add_flag("--json", options->json, "Write the result as a JSON object");
  add_threads_option(command, options->threads);
  for (const headway::ConfigField& field : headway::translation_training_fields()) {
    const std::string usual = field.default_value.empty() ? "" : "; default: " + field.default_value;
    command
        .add_option_function<std::string>(
            option_name(field.name),
            [options, name = field.name](const std::string& value) { options->fields[name] = value; },
            field.help + usual)
        ->type_name("VALUE")
        ->group("Config");
  }
  program.on_run(command, [options] { return options->run(); });
}

}  // namespace cli

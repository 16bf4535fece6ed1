// headway train
#include <iostream>
#include <memory>

#include "config_options.h"
#include "headway/translation_training.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTrainExamples = R"(  headway train --data deu-eng.zip --output model
  headway train --config run.json --epochs 3 --resume
  headway train --data pairs.tsv --width 128 --print-config > run.json
Ctrl-C writes a checkpoint and ends; --resume goes on from it to the same weights.)";

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

int train(const ConfigOptions& options) {
  const auto settings = options.settings<headway::TranslationTrainingConfig>();
  if (options.printed(settings)) return kDone;
  const headway::TranslationTrainingReport report = headway::train_translation(settings, options.begin("train"));
  if (options.json) {
    std::cout << json_of(report, settings) << '\n';
  } else {
    print(report, settings);
  }
  return kDone;
}

}  // namespace

void add_train(Program& program) {
  CLI::App& command = program.add_command({"train", "Train a translator from sentence pairs", kTrainExamples});
  const auto options = std::make_shared<ConfigOptions>();
  ConfigOptions::add_to(command, options, headway::translation_training_fields());
  program.on_run(command, [options] { return train(*options); });
}

}  // namespace cli

// headway train
#include <iostream>
#include <memory>

#include "config_options.h"
#include "headway/translation_training.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTrainExamples = R"(  headway train --data deu-eng.zip --output model
  headway train --config run.json --epochs 3
  headway train --resume model
  headway train --data pairs.tsv --width 128 --print-config > run.json
Ctrl-C writes a checkpoint and ends with 130; --resume goes on from it to the same weights.)";

std::string json_of(const std::vector<headway::ValidationReport>& validations) {
  std::string list;
  for (const headway::ValidationReport& validation : validations) {
    std::string directions;
    for (const double bleu : validation.directions) directions += (directions.empty() ? "" : ", ") + json_number(bleu);
    list += (list.empty() ? "{\"step\": " : ", {\"step\": ") + std::to_string(validation.step) +
            ", \"loss\": " + json_number(validation.loss) + ", \"bleu\": " + json_number(validation.bleu) +
            ", \"directions\": [" + directions + "]}";
  }
  return "[" + list + "]";
}

int train(const ConfigOptions& options) {
  const auto settings = options.settings<headway::TranslationTrainingConfig>();
  if (options.printed(settings)) return kDone;
  const headway::TranslationTrainingReport report = headway::train_translation(settings, options.begin("train"));
  RunReport run{.training = report.training, .finished = report.finished, .output = settings.output};
  run.validations = json_of(report.validations);
  return options.end("train", run, [&] {
    std::cout << settings.output.string() << ": " << report.training.last_step << " steps";
    if (!report.validations.empty())
      std::cout << ", BLEU " << fixed(report.validations.back().bleu, 2) << " on the validation part";
    std::cout << '\n';
  });
}

}  // namespace

void add_train(Program& program) {
  CLI::App& command = program.add_command({"train", "Train a translator from sentence pairs", kTrainExamples});
  const auto options = std::make_shared<ConfigOptions>();
  ConfigOptions::add_to(command, options, headway::translation_training_fields());
  program.on_run(command, [options] { return train(*options); });
}

}  // namespace cli

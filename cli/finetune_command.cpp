// headway finetune
#include <iostream>
#include <memory>

#include "config_options.h"
#include "headway/fine_tuning.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kFinetuneExamples =
    R"(  headway finetune --task classify --model all-MiniLM-L6-v2 --data train.csv --test test.csv --output mine
  headway finetune --task answer --model bert --data train.json --folds 5 --fold 0 --output mine
  headway finetune --task language-model --from-config config.json --new-tokenizer characters --data input.txt
  headway finetune --resume mine
Ctrl-C writes a checkpoint and ends with 130; --resume goes on from it to the same weights.)";

std::string text_of(const headway::FineTuneScores& scores) {
  std::string text = "loss " + fixed(scores.loss, 4);
  for (const headway::NamedScore& score : scores.scores) text += ", " + score.name + " " + fixed(score.value, 2);
  return text;
}

void print(const headway::FineTuneReport& report, const headway::FineTuneConfig& config) {
  std::cout << config.output.string() << ": " << report.training.last_step << " steps, weights of step "
            << report.saved_step << '\n';
  for (const headway::FineTuneScores& scores : report.validations) {
    if (scores.step == report.saved_step) std::cout << "validation: " << text_of(scores) << '\n';
  }
  for (const headway::FineTuneScores& scores : report.test) std::cout << "test: " << text_of(scores) << '\n';
}

std::string json_of(const std::vector<headway::FineTuneScores>& all) {
  std::string list;
  for (const headway::FineTuneScores& scores : all) {
    list += (list.empty() ? "{\"step\": " : ", {\"step\": ") + std::to_string(scores.step) +
            ", \"loss\": " + json_number(scores.loss) + ", \"score\": " + json_number(scores.score);
    for (const headway::NamedScore& score : scores.scores) {
      list += ", " + json_string(score.name) + ": " + json_number(score.value);
    }
    list += "}";
  }
  return "[" + list + "]";
}

int finetune(const ConfigOptions& options) {
  const auto settings = options.settings<headway::FineTuneConfig>();
  if (options.printed(settings)) return kDone;
  const headway::FineTuneReport report = headway::fine_tune(settings, options.begin("finetune"));
  RunReport run{.training = report.training, .finished = report.finished, .output = settings.output};
  run.saved_step = ", \"saved_step\": " + std::to_string(report.saved_step);
  run.validations = json_of(report.validations);
  run.test = ", \"test\": " + json_of(report.test);
  return options.end("finetune", run, [&] { print(report, settings); });
}

}  // namespace

void add_finetune(Program& program) {
  CLI::App& command = program.add_command(
      {"finetune", "Train a model of any family on texts, from a directory or from nothing", kFinetuneExamples});
  const auto options = std::make_shared<ConfigOptions>();
  ConfigOptions::add_to(command, options, headway::fine_tuning_fields());
  program.on_run(command, [options] { return finetune(*options); });
}

}  // namespace cli

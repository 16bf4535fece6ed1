// Writes the card of a fine-tuned model.
#include "report/fine_tune_card.h"

#include <algorithm>
#include <cstdio>

#include "training/fine_tune_fields.h"

namespace headway::inline v0::internal {
namespace {

std::string decimals(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f", digits, value);
  return text;
}

struct TaskText {
  const char* title;
  const char* tag;  // of Hugging Face's pipelines
  const char* command;
};
TaskText text_of_task(FineTuneTask task) {
  switch (task) {
    case FineTuneTask::classify:
      return {"Text classification", "text-classification", "headway classify --model DIRECTORY \"...\""};
    case FineTuneTask::tag:
      return {"Labelled spans", "token-classification", "headway tag --model DIRECTORY \"...\""};
    case FineTuneTask::answer:
      return {"Question answering", "question-answering",
              "headway answer --model DIRECTORY --context page.txt \"...\""};
    case FineTuneTask::language_model:
      return {"Language model", "text-generation", "headway generate --model DIRECTORY \"...\""};
    case FineTuneTask::text_to_text:
      return {"Text to text", "summarization", "headway summarize --model DIRECTORY < article.txt"};
    default:
      return {"Masked words", "fill-mask", "headway fill --model DIRECTORY \"...\""};
  }
}

std::string table_of(const FineTuneScores& scores) {
  std::string text = "| | |\n|---|---:|\n";
  for (const NamedScore& score : scores.scores) text += "| " + score.name + " | " + decimals(score.value, 2) + " |\n";
  return text + "| loss (nats) | " + decimals(scores.loss, 4) + " |\n";
}

std::string quality_of(const FineTuneReport& report, std::int64_t saved_step) {
  std::string text;
  const auto saved = std::find_if(report.validations.begin(), report.validations.end(),
                                  [&](const FineTuneScores& scores) { return scores.step == saved_step; });
  if (saved != report.validations.end()) text += "On the validation part:\n\n" + table_of(*saved);
  if (!report.test.empty())
    text += (text.empty() ? "" : "\n") + ("On the test part:\n\n" + table_of(report.test.front()));
  return text.empty() ? "There was no validation or test part, so that nothing was measured.\n" : text;
}

// A word of a shell's command line.
std::string shell_word(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("_-+./,:=").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_plain)) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// The command that repeats the run: every field that is not at its default.
std::string command_of(const FineTuneConfig& config) {
  const FineTuneConfig defaults;
  std::string text = "headway finetune";
  for (const auto& entry : fine_tune_table().entries()) {
    std::string value = config_value_text(entry.get(config));
    if (value == config_value_text(entry.get(defaults)) && entry.rule.name != "task") continue;
    // Where the files were on the machine of the run says nothing to others.
    if (entry.rule.is_path) value = std::filesystem::path(value).filename().string();
    std::string name(entry.rule.name);
    std::replace(name.begin(), name.end(), '_', '-');
    text += " --" + name + " " + shell_word(value);
  }
  return text;
}

std::string settings_of(const FineTuneConfig& config, const FineTuneFacts& facts) {
  const auto value = [&](std::string_view name) { return fine_tune_table().text_of(config, name); };
  std::string text = std::to_string(facts.last_step) + " steps of ";
  text += config.batch_tokens > 0 ? "at most " + std::to_string(config.batch_tokens * config.accumulate) + " tokens"
                                  : std::to_string(config.batch * config.accumulate) + " texts";
  text += "; AdamW (" + value("beta1") + ", " + value("beta2") + ", " + value("epsilon") + "), weight decay " +
          value("weight_decay") + ", learning rate " + value("learning_rate") + " with the schedule " +
          value("schedule") + ", label smoothing " + value("label_smoothing") + ", clipping at " + value("clip_norm") +
          ", seed " + value("seed") + "; on " + facts.device + " in " + value("precision") + ".";
  if (facts.trained_parameters < facts.parameters) {
    text += " " + decimals(static_cast<double>(facts.trained_parameters) / 1e6, 1) +
            " million of the parameters were trained, the others kept as they were.";
  }
  if (facts.saved_step < facts.last_step) {
    text += " The weights are those of step " + std::to_string(facts.saved_step) + ", the best in validation.";
  }
  return text;
}

}  // namespace

std::string fine_tune_card(const FineTuneConfig& config, const FineTuneFacts& facts, const FineTuneReport& report) {
  const TaskText task = text_of_task(config.task);
  std::string text =
      "---\npipeline_tag: " + std::string(task.tag) + "\ntags:\n- " + facts.family + "\n- headway\n---\n\n";
  text += "# " + std::string(task.title) + "\n\nA model of the family `" + facts.family + "` with " +
          decimals(static_cast<double>(facts.parameters) / 1e6, 1) + " million parameters, ";
  text += config.model.empty() ? "trained from nothing" : "fine-tuned from `" + config.model.filename().string() + "`";
  text += " with Headway. The directory has the layout of Hugging Face's models.\n\n## Use\n\n```\n" +
          std::string(task.command) + "\n```\n\n## Quality\n\n" + quality_of(report, facts.saved_step);
  text += "\n## Training\n\nData: " + facts.data + ".";
  if (!config.data_source.empty()) text += " " + config.data_source + ".";
  return text + "\n\n" + settings_of(config, facts) +
         " `training_config.json` has every setting. The command:\n\n```\n" + command_of(config) + "\n```\n";
}

}  // namespace headway::inline v0::internal

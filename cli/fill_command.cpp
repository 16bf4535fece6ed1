// headway fill
#include <iostream>
#include <memory>

#include "headway/mask_filler.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kFillExamples =
    R"(  headway fill --model bert-base-uncased "Paris is the [MASK] of France."   (number, score, word, text)
  headway fill --model DIR --top 10 < lines.txt
  headway fill --model DIR --json < lines.txt          (an object a line))";

struct Fill {
  TaskCommand task = {};
  std::int64_t top = 5;

  int run();
  std::vector<LineResult> fill(const headway::MaskFiller& filler, const Lines& lines) const;
};

std::string masks_json(const std::string& text, const headway::FilledText& filled) {
  std::string masks;
  for (const std::vector<headway::MaskWord>& mask : filled.masks) {
    std::string words;
    for (const headway::MaskWord& word : mask) {
      words += (words.empty() ? "" : ", ") + std::string("{\"word\": ") + json_string(word.word) +
               ", \"score\": " + json_number(word.score) + ", \"text\": " + json_string(word.text) + "}";
    }
    masks += (masks.empty() ? "[" : ", [") + words + "]";
  }
  return "{\"text\": " + json_string(text) + ", \"masks\": [" + masks +
         "], \"note\": " + json_string(filled.notes.describe()) + "}";
}

std::vector<LineResult> Fill::fill(const headway::MaskFiller& filler, const Lines& lines) const {
  headway::FillOptions options;
  options.most = top;
  options.batch_tokens = task.batch_tokens;
  const std::vector<headway::FilledText> filled = filler.fill(line_texts(lines), options);
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    Table table;
    for (const std::vector<headway::MaskWord>& mask : filled[i].masks) {
      for (const headway::MaskWord& word : mask) {
        table.add(
            {std::to_string(lines[i].number), score_text(word.score), shown_line(word.word), shown_line(word.text)});
      }
    }
    std::string text = task.json ? masks_json(lines[i].text, filled[i]) + '\n' : table.text();
    results.push_back(result_of(lines[i], std::move(text), filled[i].notes));
  }
  return results;
}

int Fill::run() {
  return task.run([this] {
    const auto filler = std::make_shared<headway::MaskFiller>(task.model, task.loading());
    return [this, filler](const Lines& lines) { return fill(*filler, lines); };
  });
}

}  // namespace

void add_fill(Program& program) {
  CLI::App& command = program.add_command({"fill", "Words for the masks in texts", kFillExamples});
  const auto options = std::make_shared<Fill>();
  const CLI::Option* const texts =
      options->task.add_to(command, "Directory of an encoder with a head for masked words",
                           "Texts with [MASK], or as the model spells it; without any, lines of standard input");
  command.add_option("--top", options->top, "Words to show for each mask, the best first")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20).description(""));
  program.on_run(command, [options, texts] {
    options->task.lines.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

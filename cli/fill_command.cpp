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
  void fill(const headway::MaskFiller& filler, const std::vector<std::string>& batch);
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

void Fill::fill(const headway::MaskFiller& filler, const std::vector<std::string>& batch) {
  headway::FillOptions options;
  options.most = top;
  options.batch_tokens = task.batch_tokens;
  const std::vector<headway::FilledText> filled = filler.fill(batch, options);
  Table table;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (task.json) {
      std::cout << masks_json(batch[i], filled[i]) << '\n';
      continue;
    }
    const std::string number = std::to_string(task.number + static_cast<std::int64_t>(i) + 1);
    for (const std::vector<headway::MaskWord>& mask : filled[i].masks) {
      for (const headway::MaskWord& word : mask) {
        table.add({number, score_text(word.score), shown_line(word.word), shown_line(word.text)});
      }
    }
  }
  table.print();
  for (const headway::FilledText& one : filled) task.note(one.notes);
}

int Fill::run() {
  const headway::MaskFiller filler(task.model, task.loading());
  task.for_each_batch([&](const std::vector<std::string>& batch) { fill(filler, batch); });
  return kDone;
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
    options->task.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

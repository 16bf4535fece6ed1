// headway summarize
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "generate_options.h"
#include "headway/text_to_text.h"
#include "line_command.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kSummarizeExamples =
    R"(  headway summarize < abstract.txt     (a title, by the model that comes with Headway)
  headway summarize --model bart-large-cnn < article.txt
  headway summarize --model t5-small --prefix "summarize: " < article.txt
  headway summarize --model DIR --lines < articles.txt     (an article a line)
  headway summarize --model DIR --json "First article." "Second article.")";

struct Summarize {
  WritingOptions writing = {};
  std::string prefix = {};
  bool lines = false;
  LineCommand texts = {};

  int run();
  LineWork work();
  std::vector<LineResult> write(const headway::TextToText& writer, const Lines& batch) const;
};

std::vector<LineResult> Summarize::write(const headway::TextToText& writer, const Lines& batch) const {
  const headway::TextToTextOptions options = {.prefix = prefix, .generate = writing.options()};
  std::vector<headway::TextToTextResult> written;
  if (writing.tokens) {
    std::vector<std::vector<std::int64_t>> ids;
    ids.reserve(batch.size());
    for (const Line& line : batch) ids.push_back(parse_ids(line.text));
    written = writer.run(ids, options);
  } else {
    written = writer.run(line_texts(batch), options);
  }
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    LineResult result = {.text = shown_texts(writing, batch[i].text, batch[i].number, written[i].best)};
    if (written[i].truncated) {
      result.notes.push_back("text " + std::to_string(batch[i].number) +
                             " is longer than the model can read, and was cut");
    }
    results.push_back(std::move(result));
  }
  return results;
}

LineWork Summarize::work() {
  texts.model = writing.model.empty() ? shipped_model("titles").string() : writing.model;
  const auto writer = std::make_shared<headway::TextToText>(texts.model, writing.open());
  return [this, writer](const Lines& batch) { return write(*writer, batch); };
}

int Summarize::run() {
  texts.reading.long_texts = writing.tokens ? LongTexts::refused : LongTexts::shortened;
  texts.batch = static_cast<std::size_t>(writing.options().batch_size);
  texts.most = texts.batch * 4;
  texts.json = writing.json;
  texts.by_lines = lines;
  return texts.run([this] { return work(); });
}

}  // namespace

void add_summarize(Program& program) {
  CLI::App& command = program.add_command(
      {"summarize", "Summarise texts, or standard input, by an encoder-decoder", kSummarizeExamples});
  const auto options = std::make_shared<Summarize>();
  options->writing.add_to(command);
  command.get_option("--model")->required(false)->description(
      "Directory of a model, as Hugging Face has it; default: models/titles, from abstract to title");
  command.add_option("--prefix", options->prefix, "Comes before every text, as T5's \"summarize: \"")
      ->type_name("TEXT");
  command.add_flag("--lines", options->lines, "Each line of standard input is a text; otherwise all of it is one");
  options->texts.add_to(command);
  const CLI::Option* const texts = add_texts(command, "TEXT", "Texts to summarise; without any, standard input");
  program.on_run(command, [options, texts] {
    options->texts.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

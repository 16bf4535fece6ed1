// headway summarize
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "generate_options.h"
#include "headway/text_to_text.h"
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
  std::vector<std::string> texts = {};

  std::int64_t number = 0;  // of the last text

  int run();
  void write(const headway::TextToText& writer, const std::vector<std::string>& batch);
};

void Summarize::write(const headway::TextToText& writer, const std::vector<std::string>& batch) {
  const headway::TextToTextOptions options = {.prefix = prefix, .generate = writing.options()};
  std::vector<headway::TextToTextResult> results;
  if (writing.tokens) {
    std::vector<std::vector<std::int64_t>> ids;
    ids.reserve(batch.size());
    for (const std::string& text : batch) ids.push_back(parse_ids(text));
    results = writer.run(ids, options);
  } else {
    results = writer.run(batch, options);
  }
  for (std::size_t i = 0; i < batch.size(); ++i) {
    print_texts(writing, batch[i], ++number, results[i].best);
    if (!results[i].truncated) continue;
    std::cout.flush();
    std::cerr << "headway summarize: text " << number << " is longer than the model can read, and was cut" << std::endl;
  }
  std::cout.flush();
}

int Summarize::run() {
  const std::filesystem::path model = writing.model.empty() ? shipped_model("titles").string() : writing.model;
  const headway::TextToText writer(model, writing.open());
  if (!texts.empty()) {
    write(writer, texts);
    return kDone;
  }
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway summarize: a text, Ctrl-D ends it" << std::endl;
  InputOptions reading = {.long_texts = writing.tokens ? LongTexts::refused : LongTexts::shortened,
                          .command = "headway summarize"};
  if (!lines) {
    reading.end = std::nullopt;
    const std::vector<std::string> all = InputTexts(reading).next(1);
    write(writer, {all.empty() ? std::string() : all.front()});
    return kDone;
  }
  const auto most = static_cast<std::size_t>(writing.options().batch_size * 4);
  InputTexts input(reading);
  for (auto batch = input.next(most); !batch.empty(); batch = input.next(most)) write(writer, batch);
  return kDone;
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
  const CLI::Option* const texts = add_texts(command, "TEXT", "Texts to summarise; without any, standard input");
  program.on_run(command, [options, texts] {
    options->texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

// headway generate
#include <unistd.h>

#include <iostream>
#include <memory>

#include "generate_options.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kGenerateExamples =
    R"(  headway generate --model gpt2 "Once upon a time"
  headway generate --model models/shakespeare "ROMEO:"               (a model of Headway's source tree)
  headway generate --model gpt2 --temperature 0.8 --top-p 0.95 --seed 1 "The head looks at"
  headway generate --model gpt2 --beams 4 --num-return 2 "It was"    (number, score and text, by tabs)
  headway generate --model gpt2 --json < prompts.txt                 (an object a line)
  headway generate --model DIR --tokens "1 15 27"                    (without a tokenizer))";

struct Generate {
  WritingOptions writing = {};
  std::vector<std::string> prompts = {};

  std::int64_t number = 0;  // of the last prompt

  int run();
  void generate(const headway::TextGenerator& generator, const std::vector<std::string>& batch);
  void stream(const headway::TextGenerator& generator, const std::string& prompt);
};

void Generate::generate(const headway::TextGenerator& generator, const std::vector<std::string>& batch) {
  std::vector<std::vector<std::int64_t>> ids;
  ids.reserve(batch.size());
  for (const std::string& prompt : batch) ids.push_back(writing.tokens ? parse_ids(prompt) : generator.encode(prompt));
  const std::vector<std::vector<headway::GeneratedText>> texts = generator.generate(ids, writing.options());
  for (std::size_t i = 0; i < batch.size(); ++i) std::cout << shown_texts(writing, batch[i], ++number, texts[i]);
  std::cout.flush();
}

// Shows a text while it grows.
void Generate::stream(const headway::TextGenerator& generator, const std::string& prompt) {
  headway::GenerateOptions options = writing.options();
  options.on_text = [](std::string_view piece) { std::cout << shown_text(std::string(piece)) << std::flush; };
  generator.generate(prompt, options);
  ++number;
  std::cout << std::endl;
}

int Generate::run() {
  const headway::TextGenerator generator(writing.model, writing.open());
  const bool streaming = writing.beams.value_or(1) == 1 && writing.num_return == 1 && !writing.json &&
                         !writing.tokens && is_terminal(STDOUT_FILENO);
  const auto answer = [&](const std::vector<std::string>& batch) {
    batch.size() == 1 && streaming ? stream(generator, batch[0]) : generate(generator, batch);
  };
  if (!prompts.empty()) {
    answer(prompts);
    return kDone;
  }
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway generate: a prompt a line, Ctrl-D ends" << std::endl;
  const auto most = static_cast<std::size_t>(writing.options().batch_size * 4);
  InputTexts input({.command = "headway generate"});
  for (auto batch = input.next(most); !batch.empty(); batch = input.next(most)) answer(batch);
  return kDone;
}

}  // namespace

void add_generate(Program& program) {
  CLI::App& command =
      program.add_command({"generate", "Continue prompts, or lines of standard input", kGenerateExamples});
  const auto options = std::make_shared<Generate>();
  options->writing.add_to(command);
  const CLI::Option* const prompts =
      add_texts(command, "PROMPT", "Prompts to continue; without any, each line of standard input is one");
  program.on_run(command, [options, prompts] {
    options->prompts = texts_of(*prompts);
    return options->run();
  });
}

}  // namespace cli

// headway translate
#include <unistd.h>

#include <iostream>
#include <memory>

#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTranslateExamples =
    R"(  headway translate "The animal didn't cross the street because it was too tired."
  headway translate --to en "Guten Morgen!" "Wie geht es dir?"
  headway translate --beam 1 --threads 2 < english.txt > german.txt
  headway translate --device cuda < english.txt > german.txt
  headway translate --n-best 3 "Good night."      (number, score and text, by tabs)
  headway translate --json "Good night."          (an object a line))";

struct Translate {
  TranslationOptions translation;
  std::int64_t num_best = 1;
  bool json = false;
  std::vector<std::string> texts = {};

  std::int64_t number = 0;  // of the last text

  int run();
  void translate(const headway::Translator& translator, const std::vector<std::string>& batch);
  void stream(const headway::Translator& translator, const std::string& text);
  void print(const std::string& source, const headway::Translation& translation) const;
  void print_note(const headway::Translation& translation) const;
};

std::string json_line(const std::string& source, const headway::Translation& translation) {
  std::string line = "{\"source\": " + json_string(source) + ", \"to\": " + json_string(translation.to) +
                     ", \"translation\": " + json_string(translation.text) + ", \"best\": [";
  for (std::size_t n = 0; n < translation.best.size(); ++n) {
    line += (n == 0 ? "{\"text\": " : ", {\"text\": ") + json_string(translation.best[n]) +
            ", \"score\": " + json_number(translation.scores.at(n)) + "}";
  }
  return line + "], \"note\": " + json_string(translation.notes.describe()) + "}";
}

void Translate::print_note(const headway::Translation& translation) const {
  if (translation.notes.none()) return;
  std::cout.flush();
  std::cerr << "headway translate: text " << number << ": " << translation.notes.describe() << std::endl;
}

void Translate::print(const std::string& source, const headway::Translation& translation) const {
  if (json) {
    std::cout << json_line(source, translation) << '\n';
    return;
  }
  if (num_best == 1) {
    std::cout << shown_line(translation.text) << '\n';
    return;
  }
  for (std::size_t n = 0; n < translation.best.size(); ++n) {
    std::cout << number << '\t' << fixed(translation.scores.at(n), 4) << '\t' << shown_line(translation.best[n])
              << '\n';
  }
}

void Translate::translate(const headway::Translator& translator, const std::vector<std::string>& batch) {
  headway::TranslateOptions options = translation.options();
  options.search.num_best = num_best;
  const std::vector<headway::Translation> translations = translator.translate(batch, options);
  for (std::size_t n = 0; n < batch.size(); ++n) {
    ++number;
    print(batch[n], translations[n]);
    print_note(translations[n]);
  }
  std::cout.flush();
}

// Shows a translation while it grows. Text that ends in the middle of a character waits for its end.
void Translate::stream(const headway::Translator& translator, const std::string& text) {
  headway::TranslateOptions options = translation.options();
  std::string shown;
  const auto show = [&shown](const std::string& so_far) {
    if (!so_far.starts_with(shown) || so_far.ends_with("\xEF\xBF\xBD")) return;
    std::cout << shown_line(so_far.substr(shown.size())) << std::flush;
    shown = so_far;
  };
  options.search.on_token = [&show](std::int64_t, const std::string& so_far) { show(so_far); };
  const headway::Translation result = translator.translate({text}, options).at(0);
  ++number;
  if (result.text.starts_with(shown)) {
    show(result.text);
    std::cout << std::endl;
  } else {
    std::cout << '\n' << shown_line(result.text) << std::endl;
  }
  print_note(result);
}

int Translate::run() {
  if (num_best > translation.beam) {
    throw UsageError("--n-best is " + std::to_string(num_best) + ", expected at most --beam, which is " +
                     std::to_string(translation.beam));
  }
  const headway::Translator translator = translation.model.open();
  translation.to = language_code(translator, "--to", translation.to);
  const bool streaming = translation.beam == 1 && !json && is_terminal(STDOUT_FILENO);
  const auto answer = [&](const std::vector<std::string>& batch) {
    if (batch.size() == 1 && streaming) {
      stream(translator, batch[0]);
    } else {
      translate(translator, batch);
    }
  };
  if (!texts.empty()) {
    answer(texts);
    return kDone;
  }
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway translate: a text a line, Ctrl-D ends" << std::endl;
  // Several batches at a time, so that sentences of similar length are translated together.
  const auto most = static_cast<std::size_t>(translation.options().search.batch_size * 16);
  InputTexts input;
  for (auto batch = input.next(most); !batch.empty(); batch = input.next(most)) answer(batch);
  return kDone;
}

}  // namespace

void add_translate(Program& program) {
  CLI::App& command =
      program.add_command({"translate", "Translate texts, or lines of standard input", kTranslateExamples});
  const auto options = std::make_shared<Translate>();
  options->translation.add_to(command);
  command.add_option("--n-best", options->num_best, "Translations to show for each text, the best first")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{256}).description(""));
  command.add_flag("--json", options->json, "Write one JSON object for each text");
  const CLI::Option* const texts =
      add_texts(command, "TEXT", "Texts to translate; without any, each line of standard input is one");
  program.on_run(command, [options, texts] {
    options->texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

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
  // Of a text that is read in parts: the number of the last part, the language of the first one, and whether anything
  // was printed yet.
  std::int64_t part = 0;
  std::string part_language = {};
  bool part_printed = false;

  int run();
  void translate(const headway::Translator& translator, const std::vector<std::string>& batch);
  void translate_part(const headway::Translator& translator, const std::string& text, bool goes_on);
  void translate_input(const headway::Translator& translator);
  void stream(const headway::Translator& translator, const std::string& text);
  void print(const std::string& source, const headway::Translation& translation) const;
  void print_note(const headway::Translation& translation) const;
  bool streams() const { return translation.beam == 1 && !json && is_terminal(STDOUT_FILENO); }
};

// `part` is 0 for a whole text.
std::string json_line(const std::string& source, const headway::Translation& translation, std::int64_t part) {
  std::string line = "{\"source\": " + json_string(source);
  if (part > 0) line += ", \"part\": " + std::to_string(part);
  line += ", \"to\": " + json_string(translation.to) + ", \"translation\": " + json_string(translation.text) +
          ", \"best\": [";
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
    std::cout << json_line(source, translation, part) << '\n';
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
  if (batch.size() == 1 && streams()) return stream(translator, batch[0]);
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

// Translates a part of a long text. On standard output parts make one line, with --json an object each.
void Translate::translate_part(const headway::Translator& translator, const std::string& text, bool goes_on) {
  headway::TranslateOptions options = translation.options();
  options.search.num_best = num_best;
  if (part == 0) {
    ++number;
    part_printed = false;
  } else {
    options.to = part_language;
  }
  ++part;
  headway::Translation result = translator.translate({text}, options).at(0);
  if (part == 1) part_language = result.to;
  result.notes.segments = 0;  // that there are parts was said
  if (json || num_best > 1) {
    print(text, result);
  } else {
    const std::string line = shown_line(result.text);
    std::cout << (part_printed && !line.empty() ? " " : "") << line << (goes_on ? "" : "\n");
    part_printed = part_printed || !line.empty();
  }
  std::cout.flush();
  if (!result.notes.blank && !result.notes.empty) print_note(result);
  if (!goes_on) part = 0;
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
  if (!texts.empty()) {
    translate(translator, texts);
    return kDone;
  }
  if (is_terminal(STDIN_FILENO)) std::cerr << "headway translate: a text a line, Ctrl-D ends" << std::endl;
  translate_input(translator);
  return kDone;
}

void Translate::translate_input(const headway::Translator& translator) {
  // Several batches at a time, so that sentences of similar length are translated together.
  const auto most = static_cast<std::size_t>(translation.options().search.batch_size * 16);
  InputTexts input({.long_texts = LongTexts::in_parts, .command = "headway translate"});
  for (auto batch = input.next(most); !batch.empty(); batch = input.next(most)) {
    // Only the first and the last of them can be parts.
    if (input.continues()) {
      translate_part(translator, batch.front(), input.goes_on() && batch.size() == 1);
      batch.erase(batch.begin());
    }
    std::vector<std::string> first_part;
    if (input.goes_on() && !batch.empty()) {
      first_part.push_back(std::move(batch.back()));
      batch.pop_back();
    }
    if (!batch.empty()) translate(translator, batch);
    if (!first_part.empty()) translate_part(translator, first_part.front(), /*goes_on=*/true);
  }
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

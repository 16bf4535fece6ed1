// headway translate
#include <unistd.h>

#include <iostream>
#include <memory>

#include "line_command.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTranslateExamples =
    R"(  headway translate "The animal didn't cross the street because it was too tired."
  headway translate --to en "Guten Morgen!" "Wie geht es dir?"
  headway translate --beam 1 --threads 2 < english.txt > german.txt
  headway translate --device cuda < english.txt > german.txt
  headway translate --output german.txt < english.txt         (after a kill: the same with --resume)
  mpirun -n 4 headway translate < english.txt > german.txt    (by four processes)
  headway translate --n-best 3 "Good night."      (number, score and text, by tabs)
  headway translate --json "Good night."          (an object a line))";

struct Translate {
  TranslationOptions translation;
  std::int64_t num_best = 1;
  bool json = false;
  LineCommand lines = {};

  // Of a text that is read in parts: the language of the first one, and whether anything was written yet.
  std::string part_language = {};
  bool part_written = false;

  int run();
  LineWork work();
  std::vector<LineResult> translate(const headway::Translator& translator, const Lines& batch);
  LineResult translate_part(const headway::Translator& translator, const Line& line);
  LineResult stream(const headway::Translator& translator, const Line& line) const;
  std::string shown(const Line& line, const headway::Translation& translation) const;
  headway::TranslateOptions search() const;
  bool streams() const { return translation.beam == 1 && !json && lines.output.empty() && is_terminal(STDOUT_FILENO); }
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

std::vector<std::string> notes_of(const Line& line, const headway::Translation& translation) {
  if (translation.notes.none()) return {};
  return {"text " + std::to_string(line.number) + ": " + translation.notes.describe()};
}

headway::TranslateOptions Translate::search() const {
  headway::TranslateOptions options = translation.options();
  options.search.num_best = num_best;
  return options;
}

std::string Translate::shown(const Line& line, const headway::Translation& translation) const {
  if (json) return json_line(line.text, translation, line.part) + '\n';
  if (num_best == 1) return shown_line(translation.text) + '\n';
  std::string rows;
  for (std::size_t n = 0; n < translation.best.size(); ++n) {
    rows += std::to_string(line.number) + '\t' + fixed(translation.scores.at(n), 4) + '\t' +
            shown_line(translation.best[n]) + '\n';
  }
  return rows;
}

// Translates a part of a long text. On standard output parts make one line, with --json an object each.
LineResult Translate::translate_part(const headway::Translator& translator, const Line& line) {
  headway::TranslateOptions options = search();
  if (line.part == 1) {
    part_written = false;
  } else {
    options.to = part_language;
  }
  headway::Translation result = translator.translate({line.text}, options).at(0);
  if (line.part == 1) part_language = result.to;
  result.notes.segments = 0;  // that there are parts was said
  std::string text;
  if (json || num_best > 1) {
    text = shown(line, result);
  } else {
    const std::string words = shown_line(result.text);
    text = (part_written && !words.empty() ? " " : "") + words + (line.goes_on ? "" : "\n");
    part_written = part_written || !words.empty();
  }
  const bool has_words = !result.notes.blank && !result.notes.empty;
  return {.text = text, .notes = has_words ? notes_of(line, result) : std::vector<std::string>()};
}

// Shows a translation while it grows. Text that ends in the middle of a character waits for its end.
LineResult Translate::stream(const headway::Translator& translator, const Line& line) const {
  headway::TranslateOptions options = translation.options();
  std::string so_far_shown;
  const auto show = [&so_far_shown](const std::string& so_far) {
    if (!so_far.starts_with(so_far_shown) || so_far.ends_with("\xEF\xBF\xBD")) return;
    std::cout << shown_line(so_far.substr(so_far_shown.size())) << std::flush;
    so_far_shown = so_far;
  };
  options.search.on_token = [&show](std::int64_t, const std::string& so_far) { show(so_far); };
  const headway::Translation result = translator.translate({line.text}, options).at(0);
  LineResult rest = {.notes = notes_of(line, result)};
  if (result.text.starts_with(so_far_shown)) {
    show(result.text);
    rest.text = "\n";
  } else {
    rest.text = '\n' + shown_line(result.text) + '\n';
  }
  return rest;
}

std::vector<LineResult> Translate::translate(const headway::Translator& translator, const Lines& batch) {
  if (batch.size() == 1 && batch.front().part == 0 && streams()) return {stream(translator, batch.front())};
  Lines whole;
  for (const Line& line : batch) {
    if (line.part == 0) whole.push_back(line);
  }
  const std::vector<headway::Translation> translations =
      whole.empty() ? std::vector<headway::Translation>() : translator.translate(line_texts(whole), search());
  // Parts come one after another.
  std::vector<LineResult> results;
  auto translation = translations.begin();
  for (const Line& line : batch) {
    if (line.part > 0) {
      results.push_back(translate_part(translator, line));
      continue;
    }
    results.push_back({.text = shown(line, *translation), .notes = notes_of(line, *translation)});
    ++translation;
  }
  return results;
}

LineWork Translate::work() {
  const auto translator = std::make_shared<headway::Translator>(translation.model.open());
  translation.to = language_code(*translator, "--to", translation.to);
  lines.model = translation.model.directory();
  return [this, translator](const Lines& batch) { return translate(*translator, batch); };
}

int Translate::run() {
  if (num_best > translation.beam) {
    throw UsageError("--n-best is " + std::to_string(num_best) + ", expected at most --beam, which is " +
                     std::to_string(translation.beam));
  }
  // Several batches at a time, so that sentences of similar length are translated together.
  lines.batch = static_cast<std::size_t>(translation.options().search.batch_size);
  lines.most = lines.batch * 16;
  lines.reading.long_texts = LongTexts::in_parts;
  lines.json = json;
  return lines.run([this] { return work(); });
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
  options->lines.add_to(command);
  const CLI::Option* const texts =
      add_texts(command, "TEXT", "Texts to translate; without any, each line of standard input is one");
  program.on_run(command, [options, texts] {
    options->lines.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

// headway attend
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>

#include "headway/attention_view.h"
#include "headway/error.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kAttendExamples =
    R"(  headway attend "The animal didn't cross the street because it was too tired."
  headway attend --part encoder --word it "The animal didn't cross the street because it was too tired."
  headway attend --html attention.html "Good morning!"     (a page with every head)
  headway attend --target "Guten Morgen!" "Good morning!"   (of this translation))";

constexpr std::int64_t kUsualWidth = 100;

struct Attend {
  TranslationOptions translation;
  std::optional<std::string> text = {};
  std::optional<std::string> target = {};
  headway::AttentionDrawing drawing = {};
  std::int64_t layer = 0;  // counted from 1; 0: the last
  std::int64_t head = 0;   // counted from 1; 0: all
  std::string word = {};
  std::string html = {};
  std::string svg = {};
  std::string json = {};
  std::string color = "auto";
  bool quiet = false;

  int run();
  void choose(const headway::AttentionRecord& record);
  void draw(const headway::AttentionRecord& record) const;
};

bool wants_color(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  return is_terminal(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

// Layers and heads are counted from 1 here, as all drawings show them, and from 0 in the library.
void Attend::choose(const headway::AttentionRecord& record) {
  for (const headway::AttentionPart& part : record.parts) {
    if (part.name != drawing.part) continue;
    const auto layers = static_cast<std::int64_t>(part.layers.size());
    const std::int64_t heads = part.layers.empty() ? 0 : part.layers[0].shape()[0];
    const auto check = [](const char* option, std::int64_t value, std::int64_t count) {
      if (value <= count) return;
      throw headway::Error(std::string(option) + " is " + std::to_string(value) + ", expected 1 to " +
                           std::to_string(count));
    };
    check("--layer", layer, layers);
    check("--head", head, heads);
  }
  drawing.layer = layer - 1;
  drawing.head = head - 1;
}

void Attend::draw(const headway::AttentionRecord& record) const {
  std::cout << one_line(record.source) << "\n→ " << one_line(record.target) << "\n\n";
  std::cout << headway::attention_text(record, {.what = drawing,
                                                .word = unguarded(word),
                                                .color = wants_color(color),
                                                .width = terminal_width(STDOUT_FILENO, kUsualWidth)});
}

int Attend::run() {
  if (!text) {
    const std::vector<std::string> lines = read_lines("-");
    if (lines.size() != 1) {
      throw UsageError("standard input has " + count_of(static_cast<std::int64_t>(lines.size()), "line") +
                       ", expected one text");
    }
    text = lines[0];
  }
  const headway::Translator translator = translation.model.open();
  translation.to = language_code(translator, "--to", translation.to);
  if (target) target = unguarded(*target);
  const headway::AttentionRecord record = headway::attend(translator, *text, translation.options(), target);
  choose(record);

  const bool standard_output_taken = html == "-" || svg == "-" || json == "-";
  if (!quiet && !standard_output_taken) draw(record);
  const auto write = [](const std::string& file, const std::string& content) {
    write_file(file, content);
    if (file != "-") std::cerr << file << " written" << std::endl;
  };
  if (!html.empty()) write(html, headway::attention_html(record));
  if (!svg.empty()) write(svg, headway::attention_svg(record, drawing));
  if (!json.empty()) write(json, headway::attention_json(record));
  return kDone;
}

void add_drawing_options(CLI::App& command, Attend& options) {
  command.add_option("--target", options.target, "Look at this translation instead of the model's own")
      ->type_name("TEXT");
  command.add_option("--part", options.drawing.part, "Which attention to draw")
      ->capture_default_str()
      ->check(CLI::IsMember({"encoder", "decoder", "cross"}));
  command.add_option("--layer", options.layer, "Layer to draw, counted from 1; default: the last")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20).description(""));
  command.add_option("--head", options.head, "Head to draw, counted from 1; default: all side by side")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20).description(""));
  command.add_option("--word", options.word, "Draw what this word looks at, head by head")->type_name("WORD");
  command.add_option("--html", options.html, "Write one page with every head of every layer; - is standard output")
      ->type_name("FILE");
  command.add_option("--svg", options.svg, "Write a picture of the layer")->type_name("FILE");
  command.add_option("--json", options.json, "Write all numbers")->type_name("FILE");
  command.add_option("--color", options.color, "Colours in the terminal; auto: on a terminal without NO_COLOR")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("--quiet", options.quiet, "Draw nothing in the terminal");
}

}  // namespace

void add_attend(Program& program) {
  CLI::App& command =
      program.add_command({"attend", "What each head looks at while a sentence is translated", kAttendExamples});
  const CLI::Option* const text = add_texts(command, "TEXT", "The text; without it, the line on standard input");
  const auto options = std::make_shared<Attend>();
  options->translation.add_to(command);
  add_drawing_options(command, *options);
  program.on_run(command, [options, text] {
    const std::vector<std::string> texts = texts_of(*text);
    if (texts.size() > 1) {
      throw UsageError("there are " + std::to_string(texts.size()) + " texts, expected one: put it in quotes");
    }
    if (!texts.empty()) options->text = texts[0];
    return options->run();
  });
}

}  // namespace cli

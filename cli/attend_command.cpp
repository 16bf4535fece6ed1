// headway attend
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include "base/json.h"
#include "headway/attention_view.h"
#include "headway/error.h"
#include "headway/text_tokenizer.h"
#include "headway/transformer_model.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kAttendExamples =
    R"(  headway attend "The animal didn't cross the street because it was too tired."
  headway attend --part encoder --word it "The animal didn't cross the street because it was too tired."
  headway attend --html attention.html "Good morning!"     (a page with every head)
  headway attend --target "Guten Morgen!" "Good morning!"   (of this translation)
  headway attend --model bert-base-uncased --html page.html "The animal was too tired."
  headway attend --model gpt2 --new-tokens 20 "The head looks at"    (and at what it writes))";

constexpr std::int64_t kUsualWidth = 100;

struct Attend {
  TranslationOptions translation;
  std::optional<std::string> text = {};
  std::optional<std::string> target = {};
  std::string pair = {};
  std::int64_t new_tokens = -1;
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
  headway::AttentionRecord attend();
  headway::AttentionRecord attend_any_family(const std::filesystem::path& directory) const;
  void choose(const headway::AttentionRecord& record);
  void draw(const headway::AttentionRecord& record) const;
};

bool wants_color(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  const char* const refused = std::getenv("NO_COLOR");
  return is_terminal(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

// Whether a directory holds a Marian model, which translates; a directory that cannot be read counts as one, whose
// error says why.
bool is_translator(const std::filesystem::path& directory) {
  std::error_code ignored;
  const std::filesystem::path file = directory / "config.json";
  if (!std::filesystem::is_regular_file(file, ignored)) return true;
  const headway::internal::Json config = headway::internal::read_json(file);
  const headway::internal::Json* const type = config.find("model_type");
  return type == nullptr || !type->is_string() || type->string() == "marian";
}

// Layers and heads are counted from 1 here, as all drawings show them, and from 0 in the library.
void Attend::choose(const headway::AttentionRecord& record) {
  const headway::AttentionPart* chosen = nullptr;
  std::vector<std::string> names;
  for (const headway::AttentionPart& part : record.parts) {
    names.push_back(part.name);
    if (part.name == (drawing.part.empty() && record.parts.size() > 1 ? "cross" : drawing.part)) chosen = &part;
  }
  if (chosen == nullptr && drawing.part.empty()) chosen = &record.parts.front();
  if (chosen == nullptr) {
    throw headway::Error("--part is " + drawing.part + ", and the model has " + joined(names, ", ") + " alone");
  }
  const auto check = [](const char* option, std::int64_t value, std::int64_t count) {
    if (value <= count) return;
    throw headway::Error(std::string(option) + " is " + std::to_string(value) + ", expected 1 to " +
                         std::to_string(count));
  };
  check("--layer", layer, static_cast<std::int64_t>(chosen->layers.size()));
  check("--head", head, chosen->layers.empty() ? 0 : chosen->layers[0].shape()[0]);
  drawing.layer = layer - 1;
  drawing.head = head - 1;
}

void Attend::draw(const headway::AttentionRecord& record) const {
  std::cout << shown_line(record.source) << '\n';
  if (!record.target.empty()) std::cout << "→ " << shown_line(record.target) << '\n';
  std::cout << '\n';
  std::cout << headway::attention_text(record, {.what = drawing,
                                                .word = unguarded(word),
                                                .color = wants_color(color),
                                                .width = terminal_width(STDOUT_FILENO, kUsualWidth)});
}

headway::AttentionRecord Attend::attend() {
  const std::filesystem::path directory =
      translation.model.model.empty() ? default_model() : std::filesystem::path(translation.model.model);
  if (!is_translator(directory)) return attend_any_family(directory);
  if (!pair.empty()) throw UsageError("--pair is given, and the model is no encoder");
  const headway::Translator translator = translation.model.open();
  translation.to = language_code(translator, "--to", translation.to);
  return headway::attend(translator, *text, translation.options(), target);
}

headway::AttentionRecord Attend::attend_any_family(const std::filesystem::path& directory) const {
  if (!translation.to.empty()) throw UsageError("--to is given, and the model does not translate");
  use_threads(translation.model.threads);
  const headway::TaskOptions place = computing_options(translation.model.device, translation.model.dtype);
  const headway::TransformerModel model = headway::TransformerModel::load(
      directory, {.dtype = place.dtype.value_or(headway::DType::float32), .device = place.device});
  const headway::TextTokenizer tokenizer = headway::TextTokenizer::load(directory);
  return headway::attend(model, tokenizer, *text,
                         {.pair = unguarded(pair), .target = target, .max_new_tokens = new_tokens});
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
  if (target) target = unguarded(*target);
  const headway::AttentionRecord record = attend();
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
  command
      .add_option("--target", options.target, "Look at this translation, or continuation, instead of the model's own")
      ->type_name("TEXT");
  command.add_option("--pair", options.pair, "The second text of a pair, for encoders")->type_name("TEXT");
  command
      .add_option("--new-tokens", options.new_tokens,
                  "Let the model write so many tokens; default: a decoder alone none, others as their config says")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 20).description(""));
  command.add_option("--part", options.drawing.part, "Which attention to draw; default: cross, or the only one")
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
      program.add_command({"attend", "What each head looks at: of a translation, or of any model", kAttendExamples});
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

// headway tag
#include <iostream>
#include <map>
#include <memory>

#include "headway/token_tagger.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kTagExamples =
    R"(  headway tag --model DIR "Ada Lovelace was born in London."    (number, label, score, bytes, text)
  headway tag --model DIR --aggregation first < lines.txt
  headway tag --model DIR --json < lines.txt                     (an object a line))";

const std::map<std::string, headway::TagAggregation>& aggregations() {
  using enum headway::TagAggregation;
  static const std::map<std::string, headway::TagAggregation> names = {
      {"none", none}, {"simple", simple}, {"first", first}, {"average", average}, {"max", max}};
  return names;
}

struct Tag {
  TaskCommand task = {};
  std::string aggregation = "simple";

  std::int64_t bytes_before = 0;  // of a text that is read in parts: in those that were read

  int run();
  std::vector<LineResult> tag(const headway::TokenTagger& tagger, const Lines& lines);
  void count_bytes(const Line& line, headway::TaggedText& tagged);
};

// `part` is 0 for a whole text.
std::string spans_json(const std::string& text, const headway::TaggedText& tagged, std::int64_t part) {
  std::string spans;
  for (const headway::TaggedSpan& span : tagged.spans) {
    spans += (spans.empty() ? "" : ", ") + std::string("{\"label\": ") + json_string(span.label) +
             ", \"score\": " + json_number(span.score) + ", \"begin\": " + std::to_string(span.begin) +
             ", \"end\": " + std::to_string(span.end) + ", \"text\": " + json_string(span.text) + "}";
  }
  const std::string which = part > 0 ? ", \"part\": " + std::to_string(part) : "";
  return "{\"text\": " + json_string(text) + which + ", \"spans\": [" + spans +
         "], \"note\": " + json_string(tagged.notes.describe()) + "}";
}

// Spans of parts count their bytes from the begin of the whole text.
void Tag::count_bytes(const Line& line, headway::TaggedText& tagged) {
  if (line.part == 0) return;
  if (line.part == 1) bytes_before = 0;
  for (headway::TaggedSpan& span : tagged.spans) {
    span.begin += bytes_before;
    span.end += bytes_before;
  }
  bytes_before += static_cast<std::int64_t>(line.text.size());
}

std::vector<LineResult> Tag::tag(const headway::TokenTagger& tagger, const Lines& lines) {
  headway::TagOptions options;
  options.aggregation = aggregations().at(aggregation);
  options.batch_tokens = task.batch_tokens;
  std::vector<headway::TaggedText> tagged = tagger.tag(line_texts(lines), options);
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    count_bytes(lines[i], tagged[i]);
    Table table;
    for (const headway::TaggedSpan& span : tagged[i].spans) {
      table.add({std::to_string(lines[i].number), visible_token(span.label), score_text(span.score),
                 std::to_string(span.begin), std::to_string(span.end), shown_line(span.text)});
    }
    std::string text = task.json ? spans_json(lines[i].text, tagged[i], lines[i].part) + '\n' : table.text();
    results.push_back(result_of(lines[i], std::move(text), tagged[i].notes));
  }
  return results;
}

int Tag::run() {
  return task.run([this] {
    const auto tagger = std::make_shared<headway::TokenTagger>(task.model, task.loading());
    return [this, tagger](const Lines& lines) { return tag(*tagger, lines); };
  });
}

}  // namespace

void add_tag(Program& program) {
  CLI::App& command = program.add_command({"tag", "Names and other spans in texts, with labels", kTagExamples});
  const auto options = std::make_shared<Tag>();
  const CLI::Option* const texts = options->task.add_to(command, "Directory of a model for token classification",
                                                        "Texts; without any, each line of standard input is one");
  command.add_option("--aggregation", options->aggregation, "How tokens become spans; none: each token by itself")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "simple", "first", "average", "max"}));
  options->task.lines.reading.long_texts = LongTexts::in_parts;
  program.on_run(command, [options, texts] {
    options->task.lines.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

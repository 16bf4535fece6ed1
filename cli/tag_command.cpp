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

  // Of a text that is read in parts: how many of its bytes were in earlier parts, and the number of the last part.
  std::int64_t bytes_before = 0;
  std::int64_t part = 0;

  int run();
  void tag(const headway::TokenTagger& tagger, const std::vector<std::string>& batch);
  void count_bytes(std::vector<headway::TaggedText>& tagged) const;
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
void Tag::count_bytes(std::vector<headway::TaggedText>& tagged) const {
  if (!task.continues) return;
  for (headway::TaggedSpan& span : tagged.front().spans) {
    span.begin += bytes_before;
    span.end += bytes_before;
  }
}

void Tag::tag(const headway::TokenTagger& tagger, const std::vector<std::string>& batch) {
  headway::TagOptions options;
  options.aggregation = aggregations().at(aggregation);
  options.batch_tokens = task.batch_tokens;
  std::vector<headway::TaggedText> tagged = tagger.tag(batch, options);
  count_bytes(tagged);
  Table table;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool continues = i == 0 && task.continues, goes_on = i + 1 == batch.size() && task.goes_on;
    part = continues ? part + 1 : goes_on ? 1 : 0;
    if (task.json) {
      std::cout << spans_json(batch[i], tagged[i], part) << '\n';
      continue;
    }
    const std::string number = std::to_string(task.number + static_cast<std::int64_t>(i) + 1);
    for (const headway::TaggedSpan& span : tagged[i].spans) {
      table.add({number, visible_token(span.label), score_text(span.score), std::to_string(span.begin),
                 std::to_string(span.end), shown_line(span.text)});
    }
  }
  table.print();
  for (const headway::TaggedText& one : tagged) task.note(one.notes);
  if (!task.goes_on) return;
  const std::int64_t before = task.continues && batch.size() == 1 ? bytes_before : 0;
  bytes_before = before + static_cast<std::int64_t>(batch.back().size());
  --task.number;  // its next part has the same number
}

int Tag::run() {
  const headway::TokenTagger tagger(task.model, task.loading());
  task.for_each_batch([&](const std::vector<std::string>& batch) { tag(tagger, batch); });
  return kDone;
}

}  // namespace

void add_tag(Program& program) {
  CLI::App& command = program.add_command({"tag", "Names and other spans in texts, with labels", kTagExamples});
  const auto options = std::make_shared<Tag>();
  options->task.long_texts = LongTexts::in_parts;
  const CLI::Option* const texts = options->task.add_to(command, "Directory of a model for token classification",
                                                        "Texts; without any, each line of standard input is one");
  command.add_option("--aggregation", options->aggregation, "How tokens become spans; none: each token by itself")
      ->capture_default_str()
      ->check(CLI::IsMember({"none", "simple", "first", "average", "max"}));
  program.on_run(command, [options, texts] {
    options->task.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

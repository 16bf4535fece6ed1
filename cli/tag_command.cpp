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

  int run();
  void tag(const headway::TokenTagger& tagger, const std::vector<std::string>& batch);
};

std::string spans_json(const std::string& text, const headway::TaggedText& tagged) {
  std::string spans;
  for (const headway::TaggedSpan& span : tagged.spans) {
    spans += (spans.empty() ? "" : ", ") + std::string("{\"label\": ") + json_string(span.label) +
             ", \"score\": " + json_number(span.score) + ", \"begin\": " + std::to_string(span.begin) +
             ", \"end\": " + std::to_string(span.end) + ", \"text\": " + json_string(span.text) + "}";
  }
  return "{\"text\": " + json_string(text) + ", \"spans\": [" + spans +
         "], \"note\": " + json_string(tagged.notes.describe()) + "}";
}

void Tag::tag(const headway::TokenTagger& tagger, const std::vector<std::string>& batch) {
  headway::TagOptions options;
  options.aggregation = aggregations().at(aggregation);
  options.batch_tokens = task.batch_tokens;
  const std::vector<headway::TaggedText> tagged = tagger.tag(batch, options);
  Table table;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (task.json) {
      std::cout << spans_json(batch[i], tagged[i]) << '\n';
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

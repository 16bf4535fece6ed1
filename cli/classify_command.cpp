// headway classify
#include <iostream>
#include <memory>

#include "headway/text_classifier.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kClassifyExamples =
    R"(  headway classify --model DIR "I love it"              (label, score and text)
  headway classify --model DIR --top 3 < reviews.txt
  headway classify --model DIR --json "I love it"       (an object a line, with all labels)
  headway classify --model DIR --pairs < pairs.tsv      (two texts a line, with a tab between them))";

struct Classify {
  TaskCommand task = {};
  std::int64_t top = 1;
  bool pairs = false;

  int run();
  std::vector<headway::Classification> found_in(const headway::TextClassifier& classifier, const Lines& lines) const;
  std::vector<LineResult> classify(const headway::TextClassifier& classifier, const Lines& lines) const;
};

std::string labels_json(const std::vector<headway::LabelScore>& labels) {
  std::string json;
  for (const headway::LabelScore& label : labels) {
    json += (json.empty() ? "" : ", ") + std::string("{\"label\": ") + json_string(label.label) +
            ", \"score\": " + json_number(label.score) + "}";
  }
  return "[" + json + "]";
}

std::string classification_json(const std::string& text, const headway::Classification& found) {
  return "{\"text\": " + json_string(text) + ", \"label\": " + json_string(found.label()) +
         ", \"score\": " + json_number(found.score()) + ", \"labels\": " + labels_json(found.labels) +
         ", \"note\": " + json_string(found.notes.describe()) + "}";
}

std::vector<headway::Classification> Classify::found_in(const headway::TextClassifier& classifier,
                                                        const Lines& lines) const {
  const headway::ClassifyOptions options = {.most = task.json ? 0 : top, .batch_tokens = task.batch_tokens};
  if (!pairs) return classifier.classify(line_texts(lines), options);
  std::vector<std::string> first, second;
  for (const Line& line : lines) {
    const std::size_t tab = line.text.find('\t');
    if (tab == std::string::npos) {
      // One that is alone is the first of its batch.
      throw UsageError("text " + std::to_string(lines.size() == 1 ? 1 : line.number) +
                       " has no tab, expected two texts with one between them");
    }
    first.push_back(line.text.substr(0, tab));
    second.push_back(line.text.substr(tab + 1));
  }
  return classifier.classify_pairs(first, second, options);
}

std::vector<LineResult> Classify::classify(const headway::TextClassifier& classifier, const Lines& lines) const {
  const std::vector<headway::Classification> found = found_in(classifier, lines);
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string text = task.json ? classification_json(lines[i].text, found[i]) + '\n' : "";
    if (!task.json) {
      Table table;
      for (const headway::LabelScore& label : found[i].labels) {
        table.add({visible_token(label.label), score_text(label.score), shown_line(lines[i].text)});
      }
      text = table.text();
    }
    results.push_back(result_of(lines[i], std::move(text), found[i].notes));
  }
  return results;
}

int Classify::run() {
  return task.run([this] {
    const auto classifier = std::make_shared<headway::TextClassifier>(task.model, task.loading());
    return [this, classifier](const Lines& lines) { return classify(*classifier, lines); };
  });
}

}  // namespace

void add_classify(Program& program) {
  CLI::App& command = program.add_command({"classify", "Labels of texts, with scores", kClassifyExamples});
  const auto options = std::make_shared<Classify>();
  const CLI::Option* const texts = options->task.add_to(command, "Directory of a model for sequence classification",
                                                        "Texts; without any, each line of standard input is one");
  command.add_option("--top", options->top, "Labels to show for each text, the best first; --json has them all")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20).description(""));
  command.add_flag("--pairs", options->pairs, "Each text is a pair, with a tab between the two");
  program.on_run(command, [options, texts] {
    options->task.lines.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

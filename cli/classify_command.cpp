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
  void classify(const headway::TextClassifier& classifier, const std::vector<std::string>& batch);
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

void Classify::classify(const headway::TextClassifier& classifier, const std::vector<std::string>& batch) {
  const headway::ClassifyOptions options = {.most = task.json ? 0 : top, .batch_tokens = task.batch_tokens};
  std::vector<headway::Classification> found;
  if (pairs) {
    std::vector<std::string> first, second;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const std::size_t tab = batch[i].find('\t');
      if (tab == std::string::npos) {
        throw UsageError("text " + std::to_string(task.number + static_cast<std::int64_t>(i) + 1) +
                         " has no tab, expected two texts with one between them");
      }
      first.push_back(batch[i].substr(0, tab));
      second.push_back(batch[i].substr(tab + 1));
    }
    found = classifier.classify_pairs(first, second, options);
  } else {
    found = classifier.classify(batch, options);
  }
  Table table;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (task.json) {
      std::cout << classification_json(batch[i], found[i]) << '\n';
      continue;
    }
    for (const headway::LabelScore& label : found[i].labels) {
      table.add({visible_token(label.label), score_text(label.score), shown_line(batch[i])});
    }
  }
  table.print();
  for (const headway::Classification& one : found) task.note(one.notes);
}

int Classify::run() {
  const headway::TextClassifier classifier(task.model, task.loading());
  task.for_each_batch([&](const std::vector<std::string>& batch) { classify(classifier, batch); });
  return kDone;
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
    options->task.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

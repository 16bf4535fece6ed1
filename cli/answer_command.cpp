// headway answer
#include <iostream>
#include <memory>

#include "headway/question_answerer.h"
#include "options.h"
#include "task_options.h"
#include "text_io.h"

namespace cli {
namespace {

constexpr const char* kAnswerExamples =
    R"(  headway answer --model DIR --context page.txt "Who wrote it?"
  headway answer --model DIR --context page.txt --n-best 3 "Who wrote it?"   (number, score, bytes, text)
  headway answer --model DIR --context page.txt --json < questions.txt       (an object a line))";

constexpr std::size_t kLargestContext = std::size_t{16} << 20;  // in bytes

struct AnswerCommand {
  TaskCommand task = {};
  std::string context_file = {};
  headway::AnswerOptions options = {};

  std::string context = {};  // the text of context_file

  int run();
  void answer(const headway::QuestionAnswerer& answerer, const std::vector<std::string>& batch);
};

// The lines of a text with "\n" between them, and none at its end.
std::string with_plain_ends(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool before_end = text[i] == '\r' && (i + 1 == text.size() || text[i + 1] == '\n');
    if (!before_end) plain += text[i];
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

std::string answers_json(const std::string& question, const headway::Answers& answers) {
  std::string best;
  for (const headway::Answer& answer : answers.best) {
    best += (best.empty() ? "" : ", ") + std::string("{\"text\": ") + json_string(answer.text) +
            ", \"score\": " + json_number(answer.score) + ", \"begin\": " + std::to_string(answer.begin) +
            ", \"end\": " + std::to_string(answer.end) + "}";
  }
  const std::string first = answers.best.empty() ? std::string() : answers.best.front().text;
  return "{\"question\": " + json_string(question) + ", \"answer\": " + json_string(first) + ", \"best\": [" + best +
         "], \"no_answer\": " + json_number(answers.no_answer) +
         ", \"note\": " + json_string(answers.notes.describe()) + "}";
}

void AnswerCommand::answer(const headway::QuestionAnswerer& answerer, const std::vector<std::string>& batch) {
  std::vector<headway::Question> questions;
  questions.reserve(batch.size());
  for (const std::string& question : batch) questions.push_back({question, context});
  const std::vector<headway::Answers> found = answerer.answer(questions, options);
  Table table;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    if (task.json) {
      std::cout << answers_json(batch[i], found[i]) << '\n';
    } else if (options.num_best == 1) {
      std::cout << (found[i].best.empty() ? "" : shown_line(found[i].front().text)) << '\n';
    } else {
      const std::string number = std::to_string(task.number + static_cast<std::int64_t>(i) + 1);
      for (const headway::Answer& answer : found[i].best) {
        table.add({number, score_text(answer.score), std::to_string(answer.begin), std::to_string(answer.end),
                   shown_line(answer.text)});
      }
    }
  }
  table.print();
  for (const headway::Answers& one : found) task.note(one.notes);
}

int AnswerCommand::run() {
  if (context_file == "-" && task.texts.empty()) {
    throw UsageError("--context is standard input, expected the questions as arguments");
  }
  context = read_text(context_file, kLargestContext);
  if (context_file == "-") context = with_plain_ends(context);
  task.bytes_beside = 2 * context.size();  // each question has its own, as it came and as it is read
  options.batch_tokens = task.batch_tokens;
  const headway::QuestionAnswerer answerer(task.model, task.loading());
  task.for_each_batch([&](const std::vector<std::string>& batch) { answer(answerer, batch); });
  return kDone;
}

void add_answer_options(CLI::App& command, AnswerCommand& answer) {
  const auto at_least = [](std::int64_t least) { return CLI::Range(least, std::int64_t{1} << 20).description(""); };
  command.add_option("--context", answer.context_file, "The text that holds the answers; - is standard input")
      ->type_name("FILE")
      ->required();
  command.add_option("--n-best", answer.options.num_best, "Answers to show for each question, the best first")
      ->type_name("N")
      ->capture_default_str()
      ->check(at_least(1));
  command.add_option("--max-answer-length", answer.options.max_answer_length, "Most tokens of an answer")
      ->type_name("N")
      ->capture_default_str()
      ->check(at_least(1));
  command
      .add_option("--max-length", answer.options.max_length,
                  "Most tokens that are read at once; longer texts are read in overlapping windows")
      ->type_name("N")
      ->capture_default_str()
      ->check(at_least(8));
  command.add_option("--stride", answer.options.stride, "Tokens that neighbouring windows share")
      ->type_name("N")
      ->capture_default_str()
      ->check(at_least(0));
  command.add_flag("--no-answer", answer.options.allow_no_answer, "Say nothing where that is the most probable answer");
}

}  // namespace

void add_answer(Program& program) {
  CLI::App& command = program.add_command({"answer", "Answers to questions about a text", kAnswerExamples});
  const auto options = std::make_shared<AnswerCommand>();
  const CLI::Option* const texts = options->task.add_to(command, "Directory of a model for question answering",
                                                        "Questions; without any, each line of standard input is one");
  add_answer_options(command, *options);
  program.on_run(command, [options, texts] {
    options->task.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

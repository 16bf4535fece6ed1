// headway answer
#include <iostream>
#include <memory>

#include "base/checksum.h"
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
  std::vector<LineResult> answer(const headway::QuestionAnswerer& answerer, const Lines& lines) const;
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

std::vector<LineResult> AnswerCommand::answer(const headway::QuestionAnswerer& answerer, const Lines& lines) const {
  std::vector<headway::Question> questions;
  questions.reserve(lines.size());
  for (const Line& line : lines) questions.push_back({line.text, context});
  const std::vector<headway::Answers> found = answerer.answer(questions, options);
  std::vector<LineResult> results;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    std::string text;
    if (task.json) {
      text = answers_json(lines[i].text, found[i]) + '\n';
    } else if (options.num_best == 1) {
      text = (found[i].best.empty() ? "" : shown_line(found[i].front().text)) + '\n';
    } else {
      Table table;
      for (const headway::Answer& answer : found[i].best) {
        table.add({std::to_string(lines[i].number), score_text(answer.score), std::to_string(answer.begin),
                   std::to_string(answer.end), shown_line(answer.text)});
      }
      text = table.text();
    }
    results.push_back(result_of(lines[i], std::move(text), found[i].notes));
  }
  return results;
}

int AnswerCommand::run() {
  if (context_file == "-" && task.lines.texts.empty()) {
    throw UsageError("--context is standard input, expected the questions as arguments");
  }
  task.lines.in_columns = options.num_best > 1;
  return task.run([this] {
    // Standard input is rank 0's, and so are questions as arguments.
    context = read_text(context_file, kLargestContext);
    if (context_file == "-") context = with_plain_ends(context);
    task.lines.reading.bytes_beside = 2 * context.size();  // each question has its own, as it came and as it is read
    task.lines.settings = "context " + headway::internal::xxh64_text(context) + '\n';
    options.batch_tokens = task.batch_tokens;
    const auto answerer = std::make_shared<headway::QuestionAnswerer>(task.model, task.loading());
    return [this, answerer](const Lines& lines) { return answer(*answerer, lines); };
  });
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
    options->task.lines.texts = texts_of(*texts);
    return options->run();
  });
}

}  // namespace cli

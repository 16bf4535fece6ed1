#include "task_options.h"

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "base/utf8.h"
#include "headway/error.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

// Lines that are computed together, so that texts of similar length meet in a batch.
constexpr std::size_t kLinesAtOnce = 4096;

}  // namespace

CLI::Option* TaskCommand::add_to(CLI::App& command, const std::string& model_text, const std::string& texts_text,
                                 bool with_output) {
  command.add_option("--model", model, model_text)->type_name("DIR")->required();
  add_threads_option(command, threads);
  add_computing_options(command, device, dtype);
  command.add_option("--batch-tokens", batch_tokens, "Tokens to compute at once; default: as many as suit the device")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24).description(""));
  command.add_flag("--json", json, "Write one JSON object for each text");
  lines.reading.long_texts = LongTexts::shortened;
  lines.most = kLinesAtOnce;
  lines.in_columns = true;
  lines.add_to(command, with_output);
  return add_texts(command, "TEXT", texts_text);
}

headway::TaskOptions TaskCommand::loading() const {
  use_threads(threads);
  return computing_options(device, dtype);
}

int TaskCommand::run(const std::function<LineWork()>& make_work) {
  lines.model = model;
  lines.json = json;
  if (json) lines.in_columns = false;
  return lines.run(make_work);
}

LineResult result_of(const Line& line, std::string text, const headway::TextNotes& notes) {
  LineResult result = {.text = std::move(text)};
  if (!notes.none()) result.notes.push_back("text " + std::to_string(line.number) + ": " + notes.describe());
  return result;
}

std::string aligned(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::size_t> widths;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string>& row = rows.emplace_back();
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find('\t', begin), line.size());
      row.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (std::size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], static_cast<std::size_t>(headway::internal::count_characters(row[i])));
    }
  }
  std::string result;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto width = static_cast<std::size_t>(headway::internal::count_characters(row[i]));
      result += row[i] + (i + 1 < row.size() ? std::string(widths[i] + 2 - width, ' ') : "\n");
    }
  }
  return result;
}

void Table::print() {
  std::cout << (is_terminal(STDOUT_FILENO) ? aligned(text_) : text_);
  text_.clear();
}

std::string score_text(double score) { return fixed(score, 4); }

}  // namespace cli

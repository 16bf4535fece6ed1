// What the commands of tasks on text share: the model, texts from arguments or lines, tables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headway/text_task.h"
#include "line_command.h"
#include "program.h"
#include "text_io.h"

namespace cli {

// --model, --threads, --device, --dtype, --batch-tokens, --json, --output, --resume, and texts.
struct TaskCommand {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};  // empty: as in the files
  std::int64_t batch_tokens = 0;
  bool json = false;
  LineCommand lines = {};  // texts as arguments or as lines, and what is done with results

  // Adds all options; `texts_text` describes what follows them.
  CLI::Option* add_to(CLI::App& command, const std::string& model_text, const std::string& texts_text,
                      bool with_output = true);
  // Sets the number of threads; where and how to load the model.
  headway::TaskOptions loading() const;
  // Makes the work, which loads the model, and has it done.
  int run(const std::function<LineWork()>& make_work);
};

// Rows of cells: aligned columns on a terminal, tabs between them elsewhere.
class Table {
 public:
  void add(const std::vector<std::string>& row) { text_ += joined(row, "\t") + '\n'; }
  // The rows with tabs between their cells.
  const std::string& text() const { return text_; }
  // Prints the rows and forgets them.
  void print();

 private:
  std::string text_ = {};
};

// Lines with tabs between their cells in aligned columns.
std::string aligned(const std::string& text);

// The result of one text, which has the number of its line, with what is to be said about it.
LineResult result_of(const Line& line, std::string text, const headway::TextNotes& notes);

// Scores as tables show them.
std::string score_text(double score);

}  // namespace cli

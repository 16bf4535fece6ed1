// What the commands of tasks on text share: the model, texts from arguments or lines, tables.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "headway/text_task.h"
#include "program.h"
#include "text_io.h"

namespace cli {

// --model, --threads, --device, --dtype, --batch-tokens, --json, and texts.
struct TaskCommand {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};  // empty: as in the files
  std::int64_t batch_tokens = 0;
  bool json = false;
  std::vector<std::string> texts = {};

  LongTexts long_texts = LongTexts::shortened;
  std::size_t bytes_beside = 0;  // memory that each text takes beside its own bytes
  bool continues = false;        // whether the first text of a batch continues the last one of the batch before
  bool goes_on = false;          // whether the last text of a batch goes on in the next one

  std::string name = {};    // "classify"
  std::int64_t number = 0;  // of the last text that was printed

  // Adds all options; `texts_text` describes what follows them.
  CLI::Option* add_to(CLI::App& command, const std::string& model_text, const std::string& texts_text);
  // Sets the number of threads; where and how to load the model.
  headway::TaskOptions loading() const;
  // Calls use(batch) for the texts, or for the lines of standard input as they come.
  void for_each_batch(const std::function<void(const std::vector<std::string>& batch)>& use);
  // Counts a text, and prints what is to be said about it.
  void note(const headway::TextNotes& notes);
};

// Rows of cells: aligned columns on a terminal, tabs between them elsewhere.
class Table {
 public:
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Prints the rows and forgets them.
  void print();

 private:
  std::vector<std::vector<std::string>> rows_ = {};
};

// Scores as tables show them.
std::string score_text(double score);

}  // namespace cli

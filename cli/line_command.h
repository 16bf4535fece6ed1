// Commands that compute lines of the input: by one rank or by many, to standard output or to a file that a later run
// can go on with.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "line_farm.h"
#include "program.h"
#include "text_io.h"

namespace cli {

struct LineCommand {
  std::string name = {};                // "translate"
  std::vector<std::string> texts = {};  // given as arguments, instead of lines
  InputOptions reading = {};
  bool by_lines = true;           // otherwise all of standard input is one text
  std::size_t most = 512;         // lines that one rank computes at once
  std::size_t batch = 32;         // lines that the model computes at once
  bool json = false;              // a line that failed becomes an object, not an empty line
  bool in_columns = false;        // cells have tabs between them; on a terminal columns are aligned
  std::string output = {};        // a file
  bool resume = false;            // goes on with it
  std::string model = {};         // its directory, known when the work is made
  std::string settings = {};      // what else changes results, lines
  const CLI::App* app = nullptr;  // has the options that change results
  // Takes results instead of an output.
  std::function<void(const std::vector<LineResult>& results)> collect = {};

  // Adds --output and --resume, or --resume alone.
  void add_to(CLI::App& command, bool with_output = true);
  // Makes the work on every rank, which may throw, and has it done. Returns the exit code.
  int run(const std::function<LineWork()>& make_work);
};

}  // namespace cli

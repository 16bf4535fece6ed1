// The results: a table on the terminal and a JSON file.
#pragma once

#include <string>
#include <vector>

#include "case.h"
#include "measure.h"

namespace bench {

struct Row {
  Case what;
  int threads = 1;
  Timing headway = {};
  Timing torch = {};
  std::string torch_path = {};  // which of PyTorch's ways was the fastest
  double ratio = 0;             // PyTorch's time / Headway's
  double limit = 0;             // the measured peak in GFLOP/s; for decoding, the read bandwidth in GB/s
  double headway_share = 0;     // of that limit
  double torch_share = 0;
  double weights_cost = 0;  // Headway's time with weights / without; 0 where none were asked for
  double error = 0;
  double tolerance = 0;
  std::string failure = {};  // why the result is missing; empty without a failure
};

struct Machine {
  std::string date;
  std::string cpu;
  std::string instruction_set;
  int max_threads = 1;
  std::string torch;
  double other_load = 0;  // share of the processors' time that other programs took during the run
};

// Today's date and what the program runs on.
Machine describe_machine();

void print_machine(const Machine& machine);
void print_group_heading(const std::string& group);
void print_row(const Row& row);

// The geometric mean of the ratios of every group, per number of threads.
void print_means(const std::vector<Row>& rows);

// A warning where other programs took enough of the machine to make the figures doubtful.
void print_other_load(const Machine& machine);

void write_json(const std::string& path, const Machine& machine, const std::vector<Row>& rows);

}  // namespace bench

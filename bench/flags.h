// The command line that the benchmarks of operations share.
#pragma once

#include <cstdio>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

// The settings of one benchmark.
struct FlagDefaults {
  std::string program;
  std::string example;  // words that --filter may get
  double seconds_per_row = 1;
  double quick_seconds_per_row = 0.1;
  bool measures_cases = false;  // it knows --cases
};

struct Flags {
  std::string filter = {};
  std::string threads = "both";  // 1, all or both
  std::string json = {};
  double seconds_per_row = 1;
  int min_rounds = 3;
  bool list = false;
  bool cases = false;  // the tests' list instead of the table
  bool help = false;

  // Whether a row's name has every word of the filter.
  bool matches(const std::string& name) const;
  // Leaves the rows that the filter matches, which must be some; true where --list asked for their names alone, which
  // are then printed.
  template <typename Row, typename NameOf>
  bool choose(std::vector<Row>& rows, const NameOf& name_of) const {
    std::erase_if(rows, [&](const Row& row) { return !matches(name_of(row)); });
    if (rows.empty() && !list) throw std::runtime_error("no row matches " + filter + "; --list prints their names");
    for (const Row& row : rows) {
      if (list) std::printf("%s\n", name_of(row).c_str());
    }
    return list;
  }
  // The numbers of threads to measure with, fewest first.
  std::vector<int> thread_counts(int max_threads) const;
};

// Runs the body with the flags of the command line; prints an exception, and returns the program's exit status.
int run_program(int argument_count, char** arguments, const FlagDefaults& defaults,
                const std::function<int(const Flags&)>& body);

// What --help prints.
std::string usage(const FlagDefaults& defaults);

// Throws where an option is unknown, lacks its value or has a wrong one.
Flags parse_flags(const std::vector<std::string>& arguments, const FlagDefaults& defaults);

}  // namespace bench

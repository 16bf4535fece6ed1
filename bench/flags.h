// The command line that the benchmarks of operations share.
#pragma once

#include <string>
#include <vector>

namespace bench {

// What one benchmark has of its own.
struct FlagDefaults {
  std::string program;
  std::string example;  // words that --filter may get
  double seconds_per_row = 1;
  double quick_seconds_per_row = 0.1;
};

struct Flags {
  std::string filter = {};
  std::string threads = "both";  // 1, all or both
  std::string json = {};
  double seconds_per_row = 1;
  int min_rounds = 3;
  bool list = false;
  bool help = false;

  // Whether a row's name has every word of the filter.
  bool matches(const std::string& name) const;
  // The numbers of threads to measure with, fewest first.
  std::vector<int> thread_counts(int max_threads) const;
};

// What --help prints.
std::string usage(const FlagDefaults& defaults);

// Throws where an option is unknown, lacks its value or has a wrong one.
Flags parse_flags(const std::vector<std::string>& arguments, const FlagDefaults& defaults);

}  // namespace bench

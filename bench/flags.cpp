#include "flags.h"

#include <cstdio>
#include <exception>
#include <sstream>
#include <stdexcept>

namespace bench {

bool Flags::matches(const std::string& name) const {
  std::istringstream words(filter);
  for (std::string word; words >> word;) {
    if (name.find(word) == std::string::npos) return false;
  }
  return true;
}

std::vector<int> Flags::thread_counts(int max_threads) const {
  std::vector<int> counts;
  if (threads != "all") counts.push_back(1);
  if (threads != "1" && (max_threads > 1 || counts.empty())) counts.push_back(max_threads);
  return counts;
}

std::string usage(const FlagDefaults& defaults) {
  std::ostringstream text;
  text << "usage: " << defaults.program << " [options]\n"
       << "  --filter WORDS         only rows whose name has every word, e.g. '" << defaults.example << "'\n"
       << "  --threads 1|all|both   default both\n"
       << "  --seconds-per-row S    default " << defaults.seconds_per_row
       << "; a row has at least three rounds, however long they take\n"
       << "  --quick                a rough table: " << defaults.quick_seconds_per_row
       << " seconds per row, one round at least\n"
       << "  --json PATH            write the results there\n"
       << "  --list                 print the names of the rows\n";
  if (defaults.measures_cases) {
    text << "  --cases                Headway alone, on every case of the tests' list\n";
  }
  text << "  --help                 print this\n";
  return text.str();
}

Flags parse_flags(const std::vector<std::string>& arguments, const FlagDefaults& defaults) {
  Flags flags;
  flags.seconds_per_row = defaults.seconds_per_row;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    const auto value = [&] {
      if (i + 1 == arguments.size()) throw std::runtime_error(flag + " needs a value\n" + usage(defaults));
      return arguments[++i];
    };
    if (flag == "--filter") {
      flags.filter = value();
    } else if (flag == "--threads") {
      flags.threads = value();
    } else if (flag == "--seconds-per-row") {
      flags.seconds_per_row = std::stod(value());
    } else if (flag == "--json") {
      flags.json = value();
    } else if (flag == "--quick") {
      flags.seconds_per_row = defaults.quick_seconds_per_row;
      flags.min_rounds = 1;
    } else if (flag == "--list") {
      flags.list = true;
    } else if (flag == "--cases" && defaults.measures_cases) {
      flags.cases = true;
    } else if (flag == "--help") {
      flags.help = true;
    } else {
      throw std::runtime_error("unknown option " + flag + "\n" + usage(defaults));
    }
  }
  if (flags.threads != "1" && flags.threads != "all" && flags.threads != "both") {
    throw std::runtime_error("--threads is 1, all or both, not " + flags.threads);
  }
  return flags;
}

int run_program(int argument_count, char** arguments, const FlagDefaults& defaults,
                const std::function<int(const Flags&)>& body) {
  try {
    const Flags flags = parse_flags({arguments + 1, arguments + argument_count}, defaults);
    if (flags.help) {
      std::printf("%s", usage(defaults).c_str());
      return 0;
    }
    return body(flags);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", defaults.program.c_str(), error.what());
    return 2;
  }
}

}  // namespace bench

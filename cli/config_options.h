// What the commands that train share: a config's fields as options, signals that end a run after its step, the report.
#pragma once

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/communicator.h"
#include "headway/device.h"
#include "headway/error.h"
#include "headway/training.h"
#include "headway/training_run.h"
#include "program.h"

namespace cli {

// What a report has whatever the run, and the fields that only one kind of run has, as JSON.
struct RunReport {
  const headway::TrainingReport& training;
  bool finished = false;
  std::filesystem::path output = {};
  std::string saved_step = {};   // ", \"saved_step\": 80", or nothing
  std::string validations = {};  // "[...]"
  std::string test = {};         // ", \"test\": [...]", or nothing

  std::string json() const;
};

// The options of a command that runs by a config.
struct ConfigOptions {
  std::string config = {};                         // a JSON file
  std::map<std::string, std::string> fields = {};  // given as flags, by the config's names
  bool resume = false;
  std::string resumed = {};  // the output directory of the run, where --resume names it
  bool print_config = false;
  bool quiet = false;
  bool json = false;
  int threads = 0;
  int context_parallel = 1;

  // Adds them all; every field becomes an option of its name.
  static void add_to(CLI::App& command, const std::shared_ptr<ConfigOptions>& options,
                     const std::vector<headway::ConfigField>& fields);

  // The config of the file with the flags set; for a run that is resumed, over the settings that it has.
  template <typename Config>
  Config settings() const {
    const Config given = over(Config());
    if (!resume) return given;
    const std::filesystem::path output = resumed.empty() ? given.output : std::filesystem::path(resumed);
    const std::optional<Config> earlier = Config::of_run(output);
    if (!earlier) {
      if (!resumed.empty()) throw headway::Error((output / "training").string() + ": holds no run to resume");
      return given;
    }
    const Config settings = over(*earlier);
    check_output(output, settings.output);
    return settings;
  }
  // Writes the config, where that is asked for; else checks it and returns false.
  template <typename Config>
  bool printed(const Config& settings) const {
    Config checked = settings;
    // A config may be written on a machine without its GPU.
    if (print_config && headway::Device::is_name(settings.device)) checked.device = "cpu";
    checked.check();
    if (print_config && headway::Communicator::world().rank() == 0) std::cout << settings.to_json();
    return print_config;
  }
  // The run's options, after SIGINT and SIGTERM are caught and the number of threads is set.
  headway::TrainingRunOptions begin(const std::string& command) const;
  // Writes what every run has to say at its end, and returns the exit code. `print` writes the rest of a finished one.
  template <typename Print>
  int end(const std::string& command, const RunReport& report, const Print& print) const {
    const headway::Communicator ranks = headway::Communicator::world();
    if (!report.finished) await_others(ranks);
    if (ranks.rank() != 0) return kDone;  // the other ranks have nothing to say
    for (const std::string& file : report.training.unreadable) {
      std::cerr << "headway " << command << ": unreadable: " << file << std::endl;
    }
    if (json) {
      std::cout << report.json() << '\n';
    } else if (report.finished) {
      print();
    } else {
      std::cout << "stopped after step " << report.training.last_step << "; to go on: " << resuming(command, report)
                << '\n';
    }
    return report.finished ? kDone : signalled();
  }

 private:
  // The fields of the file and the flags over those of `config`.
  template <typename Config>
  Config over(Config settings) const {
    if (!config.empty()) settings = Config::load(config, settings);
    for (const auto& [field, value] : fields) settings.set(field, value);
    return settings;
  }
  // Throws where --resume and the output name two directories.
  static void check_output(const std::filesystem::path& resumed, const std::filesystem::path& output);
  // The command that resumes the run.
  static std::string resuming(const std::string& command, const RunReport& report);
  // A rank that ends with another code than 0 has failed for those that still wait for it: after a signal rank 0 alone
  // does so, when the others wait for nothing any more.
  static void await_others(const headway::Communicator& ranks);
  // The exit code after a signal.
  static int signalled();
};

}  // namespace cli

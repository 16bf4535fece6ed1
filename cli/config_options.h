// What the commands that train share: a config's fields as options, and signals that end a run after its step.
#pragma once

#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "headway/device.h"
#include "headway/training_run.h"
#include "program.h"

namespace cli {

// The options of a command that runs by a config.
struct ConfigOptions {
  std::string config = {};                         // a JSON file
  std::map<std::string, std::string> fields = {};  // given as flags, by the config's names
  bool resume = false;
  bool print_config = false;
  bool quiet = false;
  bool json = false;
  int threads = 0;

  // Adds them all; every field becomes an option of its name.
  static void add_to(CLI::App& command, const std::shared_ptr<ConfigOptions>& options,
                     const std::vector<headway::ConfigField>& fields);

  // The config of the file with the flags set.
  template <typename Config>
  Config settings() const {
    Config settings;
    if (!config.empty()) settings = Config::load(config);
    for (const auto& [field, value] : fields) settings.set(field, value);
    return settings;
  }
  // Writes the config, where that is asked for; else checks it and returns false.
  template <typename Config>
  bool printed(const Config& settings) const {
    Config checked = settings;
    // A config may be written on a machine without its GPU.
    if (print_config && headway::Device::is_name(settings.device)) checked.device = "cpu";
    checked.check();
    if (print_config) std::cout << settings.to_json();
    return print_config;
  }
  // The run's options, after SIGINT and SIGTERM are caught and the number of threads is set.
  headway::TrainingRunOptions begin(const std::string& command) const;
};

}  // namespace cli

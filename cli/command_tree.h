// The commands and their options as plain data, for completion and the manual.
#pragma once

#include <string>
#include <vector>

#include "program.h"

namespace cli {

struct OptionText {
  std::vector<std::string> names;    // "-h", "--help"; empty for what follows the options
  std::string positional;            // its name, as TEXT; empty for an option
  std::string value;                 // "N", "FILE", ...; empty for a flag
  std::vector<std::string> choices;  // the allowed values; empty: any
  std::string usual;                 // the default value, where one is shown
  std::string description;
  bool required = false;
  bool many = false;  // may be repeated
};

struct CommandDescription {
  std::string path;  // "headway data split"
  std::string description;
  std::string examples;  // and other text that follows
  std::vector<OptionText> options;
  std::vector<const CLI::App*> inner;  // commands under it
};

// All commands, the program itself first, each before those under it.
std::vector<CommandDescription> describe_commands(const CLI::App& program);

}  // namespace cli

// Options that several commands have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "headway/text_pairs.h"
#include "headway/translator.h"
#include "program.h"

namespace cli {

// The model directory that is meant where none is named: the environment's HEADWAY_MODEL, else models/en-de near the
// program or in the working directory. Throws, naming the places, where there is none.
std::filesystem::path default_model();

// --model, --threads, --device and --dtype.
struct ModelOptions {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = "float32";

  void add_to(CLI::App& command);
  // --device and --dtype too, for commands that compute with the model.
  void add_with_device_to(CLI::App& command);
  // The model, where it shall be; the number of threads is set on the way.
  headway::Translator open() const;
};

// --to and how to search for a translation.
struct TranslationOptions {
  std::string to = {};
  std::int64_t beam = 4;
  std::int64_t batch = 0;  // 0: as many as suit the device
  double length_penalty = 1.0;
  std::int64_t max_length = 0;

  void add_to(CLI::App& command);
  headway::TranslateOptions options_for(const ModelOptions& model) const;
};

// Adds a list of texts that follows the options.
CLI::Option* add_texts(CLI::App& command, const std::string& name, const std::string& description);
// The texts as they were typed: CLI11 would take "{}" for an empty list, and Program::run() guards "[a, b]".
std::vector<std::string> texts_of(const CLI::Option& option);
// A value without the guard.
std::string unguarded(std::string value);

void add_threads_option(CLI::App& command, int& threads);
// Sets the number of threads unless it is 0.
void use_threads(int threads);

// Pairs out of --data FILE, or FILE and --data-target FILE, and how they are cleaned.
struct PairOptions {
  std::string data = {};
  std::string data_target = {};
  headway::CleaningOptions cleaning = {};

  void add_cleaning_to(CLI::App& command);
  std::vector<headway::TextPair> read() const;
};

}  // namespace cli

// Options that several commands share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "headway/text_pairs.h"
#include "headway/translator.h"
#include "program.h"

namespace cli {

// The directory of a model that comes with the program: models/NAME near the program or in the working directory.
// Throws an Error that lists these places where none exists, and says how to name another.
std::filesystem::path shipped_model(const std::string& name, const std::string& how = "--model DIR");

// The default translator: the environment's HEADWAY_MODEL, else the shipped en-de.
std::filesystem::path default_model();

// --device and --dtype; where nothing is given, `dtype` stays empty.
void add_computing_options(CLI::App& command, std::string& device, std::string& dtype,
                           const std::string& default_dtype = "those of the files");
headway::TaskOptions computing_options(const std::string& device, const std::string& dtype);

// --model, --threads, and for commands that compute with the model --device and --dtype.
struct ModelOptions {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};  // empty: float32, or int8 where the model has it

  void add_to(CLI::App& command);
  void add_device_to(CLI::App& command);
  // Of the model: --model or the default.
  std::filesystem::path directory() const;
  // The --device and --dtype.
  headway::TaskOptions loading() const;
  // Loads the model onto the device, after setting the number of threads.
  headway::Translator open() const;
};

// The options of commands that translate: the model, --to and how to search.
struct TranslationOptions {
  ModelOptions model = {};
  std::string to = {};
  std::int64_t beam = 4;
  std::int64_t batch = 0;  // 0: as many as suit the device
  double length_penalty = 1.0;
  std::int64_t max_length = 0;

  void add_to(CLI::App& command);
  // The options of Translator::translate().
  headway::TranslateOptions options() const;
};

// The model's code of the language that `option` names; "" where it names none. An Error names the option and the codes
// that exist.
std::string language_code(const headway::Translator& translator, const std::string& option, const std::string& name);

// Adds a list of texts that follows the options.
CLI::Option* add_texts(CLI::App& command, const std::string& name, const std::string& description);
// The texts as they were typed. CLI11 would take "{}" for an empty list, and Program::run() guards "[a, b]".
std::vector<std::string> texts_of(const CLI::Option& option);
// A value without the guard of Program::run().
std::string unguarded(std::string value);

void add_threads_option(CLI::App& command, int& threads);
// Sets the number of threads. 0: HEADWAY_NUM_THREADS, else under mpirun and srun this rank's share of the processors.
void use_threads(int threads);

// Sentence pairs of one file or of two parallel files, and how they are cleaned.
struct PairOptions {
  std::string data = {};
  std::string data_target = {};
  headway::CleaningOptions cleaning = {};

  void add_cleaning_to(CLI::App& command);
  std::vector<headway::TextPair> read() const;
};

}  // namespace cli

// headway data split, headway data clean
#include <filesystem>
#include <iostream>
#include <memory>
#include <system_error>

#include "headway/error.h"
#include "options.h"
#include "text_io.h"

namespace cli {
namespace {

namespace fs = std::filesystem;

struct Data {
  PairOptions pairs;
  std::string output = {};
  std::int64_t modulus = 50;
  bool keep_all = false;
  bool json = false;

  int clean();
  int split();
};

std::string as_lines(const std::vector<headway::TextPair>& pairs) {
  std::string lines;
  for (const headway::TextPair& pair : pairs) lines += pair.source + '\t' + pair.target + '\n';
  return lines;
}

std::string json_of(const headway::CleaningReport& report) {
  return "{\"kept\": " + std::to_string(report.kept) + ", \"empty\": " + std::to_string(report.empty) +
         ", \"too_long\": " + std::to_string(report.too_long) + ", \"ratio\": " + std::to_string(report.ratio) +
         ", \"duplicates\": " + std::to_string(report.duplicates) + "}";
}

void print(const headway::CleaningReport& report) {
  std::cout << "kept " << count_of(report.kept, "pair") << "; left out " << report.empty << " empty, "
            << report.too_long << " too long, " << report.ratio << " of unlike lengths, " << report.duplicates
            << " there already\n";
}

int Data::clean() {
  std::vector<headway::TextPair> all = pairs.read();
  const headway::CleaningReport report = headway::clean_pairs(all, pairs.cleaning);
  write_file(output, as_lines(all));
  if (output == "-") return kDone;
  if (json) {
    std::cout << json_of(report) << '\n';
  } else {
    print(report);
  }
  return kDone;
}

int Data::split() {
  std::vector<headway::TextPair> all = pairs.read();
  headway::CleaningReport report = {.kept = static_cast<std::int64_t>(all.size())};
  if (keep_all) {
    // A tab inside a side would be read back as the end of it.
    for (const headway::TextPair& pair : all) {
      if ((pair.source + pair.target).find('\t') == std::string::npos) continue;
      throw headway::Error(pairs.data + ": a text has a tab in it, which --keep-all cannot write");
    }
  } else {
    report = headway::clean_pairs(all, pairs.cleaning);
  }
  const headway::SplitPairs parts = headway::split_pairs(all, modulus);
  std::error_code problem;
  fs::create_directories(output, problem);
  if (problem) throw headway::Error(output + ": cannot be made: " + problem.message());
  struct Part {
    const char* name;
    const std::vector<headway::TextPair>& pairs;
  };
  const Part named[] = {{"training", parts.training}, {"validation", parts.validation}, {"test", parts.test}};
  for (const Part& part : named) {
    write_file((fs::path(output) / (part.name + std::string(".tsv"))).string(), as_lines(part.pairs));
  }
  if (json) {
    std::cout << "{\"cleaning\": " << json_of(report) << ", \"components\": " << parts.components;
    for (const Part& part : named) {
      std::cout << ", \"" << part.name << "\": {\"pairs\": " << part.pairs.size()
                << ", \"distinct_sources\": " << headway::distinct_sources(part.pairs).size()
                << ", \"distinct_targets\": " << headway::distinct_sources(part.pairs, true).size() << "}";
    }
    std::cout << "}\n";
    return kDone;
  }
  print(report);
  std::cout << count_of(parts.components, "component") << " that share no sentence\n";
  for (const Part& part : named) {
    std::cout << (fs::path(output) / part.name).string()
              << ".tsv: " << count_of(static_cast<std::int64_t>(part.pairs.size()), "pair") << ", "
              << headway::distinct_sources(part.pairs).size() << " distinct sources, "
              << headway::distinct_sources(part.pairs, true).size() << " distinct targets\n";
  }
  return kDone;
}

void add_input(CLI::App& command, Data& options) {
  command
      .add_option("FILE", options.pairs.data,
                  "Sentence pairs: source, tab, target a line; plain, or the one text in a .zip")
      ->type_name("")
      ->required();
  command
      .add_option("--target-file", options.pairs.data_target,
                  "Where set, FILE holds the sources line by line and this file the targets")
      ->type_name("FILE");
  command.add_flag("--json", options.json, "Write the counts as a JSON object");
  options.pairs.add_cleaning_to(command);
}

}  // namespace

void add_data(Program& program) {
  CLI::App& data = program.add_command({"data", "Clean and split sentence pairs",
                                        "  headway data split deu-eng.zip --output parts\n"
                                        "  headway data clean pairs.tsv --output clean.tsv"});
  data.require_subcommand(1);

  CLI::App& split =
      program.add_command({"split", "Split pairs into training.tsv, validation.tsv and test.tsv that share no sentence",
                           "  headway data split deu-eng.zip --output parts\n"
                           "  headway data split english.txt --target-file german.txt --output parts --json"},
                          &data);
  const auto options = std::make_shared<Data>();
  add_input(split, *options);
  split.add_option("--output", options->output, "Directory for the three files")->type_name("DIR")->required();
  split
      .add_option("--modulus", options->modulus,
                  "One in N groups of sentences goes to the test part, and one to validation")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{1} << 40).description(""));
  split.add_flag("--keep-all", options->keep_all, "Split the pairs as they are, without cleaning");
  program.on_run(split, [options] { return options->split(); });

  CLI::App& clean = program.add_command({"clean", "Write the pairs that are worth learning from",
                                         "  headway data clean deu-eng.zip --output clean.tsv\n"
                                         "  headway data clean pairs.tsv --max-characters 200 --output - | head"},
                                        &data);
  const auto clean_options = std::make_shared<Data>();
  add_input(clean, *clean_options);
  clean.add_option("--output", clean_options->output, "File to write; - is standard output")
      ->type_name("FILE")
      ->required();
  program.on_run(clean, [clean_options] { return clean_options->clean(); });
}

}  // namespace cli

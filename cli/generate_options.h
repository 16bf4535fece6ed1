// Options of the commands that write text: generate and summarize.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headway/text_generator.h"
#include "program.h"

namespace cli {

struct WritingOptions {
  std::string model = {};
  int threads = 0;
  std::string device = "cpu";
  std::string dtype = {};
  std::optional<std::int64_t> max_new_tokens = {};
  std::int64_t min_new_tokens = 0;
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  std::optional<double> repetition_penalty = {};
  std::optional<std::int64_t> no_repeat_ngram = {};
  std::vector<std::string> logit_bias = {};  // "ID:X"
  std::vector<std::string> stop = {};
  std::uint64_t seed = 0;
  std::optional<std::int64_t> beams = {};
  std::int64_t num_return = 1;
  std::optional<double> length_penalty = {};
  std::int64_t batch = 0;  // 0: as many as suit the device
  bool ignore_end = false;
  bool tokens = false;
  bool json = false;

  void add_to(CLI::App& command);
  // Sets the number of threads; where and with which numbers the model computes.
  headway::TaskOptions open() const;
  headway::GenerateOptions options() const;
};

// "3 17 5" as token ids; throws UsageError where a word is not a number.
std::vector<std::int64_t> parse_ids(const std::string& text);

// The texts of one prompt as a JSON object a line, or by lines.
std::string shown_texts(const WritingOptions& options, const std::string& prompt, std::int64_t number,
                        const std::vector<headway::GeneratedText>& texts);

}  // namespace cli

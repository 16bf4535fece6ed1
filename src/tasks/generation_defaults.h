// What generate() does by default: generation_config.json, else what older models say in config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "generate/generated.h"
#include "headway/transformer_model.h"

namespace headway::inline v0::internal {

struct GenerationDefaults {
  std::optional<std::int64_t> max_new_tokens = {};
  std::optional<std::int64_t> max_length = {};  // the prompt included
  std::int64_t min_new_tokens = 0;
  std::int64_t min_length = 0;
  bool samples = false;
  std::optional<double> temperature = {};
  std::optional<std::int64_t> top_k = {};
  std::optional<double> top_p = {};
  std::optional<double> min_p = {};
  double repetition_penalty = 1.0;
  std::int64_t no_repeat_ngram = 0;
  std::int64_t beams = 1;
  double length_penalty = 1.0;
  EarlyStopping early_stopping = EarlyStopping::heuristic;
  std::vector<std::vector<std::int64_t>> bad_words = {};
  std::vector<std::int64_t> suppressed = {};
  std::vector<std::int64_t> suppressed_first = {};
  std::optional<std::int64_t> forced_first = {};
  std::vector<std::int64_t> forced_last = {};
  std::optional<std::int64_t> decoder_start = {};
  std::optional<std::int64_t> bos = {};
  std::vector<std::int64_t> end_ids = {};
};

// Of a model's options and the texts of its two files, of which the second may be empty.
GenerationDefaults generation_defaults(const TransformerModelOptions& model, const std::string& config,
                                       const std::string& generation_config);

// The options of one call: what is given, else the defaults. `function` begins the messages.
GenerationOptions resolved_options(const char* function, const GenerateOptions& given,
                                   const GenerationDefaults& defaults);

// The most new tokens after a prompt of `prompt` tokens, for a model with `most_positions` (0: no limit);
// `otherwise` where neither the options nor the config say.
std::int64_t most_new_tokens(const GenerateOptions& given, const GenerationDefaults& defaults, std::int64_t prompt,
                             std::int64_t most_positions, std::int64_t otherwise);

}  // namespace headway::inline v0::internal

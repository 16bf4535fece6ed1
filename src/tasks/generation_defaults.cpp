#include "tasks/generation_defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/json.h"

namespace headway::inline v0::internal {
namespace {

// Beyond any count or id, and far from where sums overflow.
constexpr std::int64_t kMostNumber = std::int64_t{1} << 40;

// Reads fields where they are there and not null.
class ConfigReader {
 public:
  ConfigReader(const std::string& text, const char* where) : json_(parse_json(text, where)), where_(where) {}

  const Json* find(const char* name) const {
    const Json* value = json_.find(name);
    return value && !value->is_null() ? value : nullptr;
  }
  template <typename Value>
  void integer(const char* name, Value& target) const {
    const Json* value = find(name);
    if (!value) return;
    check(value->is_int64(), where_, ": ", name, " is ", value->text(), ", expected an integer");
    const std::int64_t number = value->int64();
    check(number >= -kMostNumber && number <= kMostNumber, where_, ": ", name, " is ", number, ", expected at most ",
          kMostNumber);
    target = number;
  }
  template <typename Value>
  void number(const char* name, Value& target) const {
    const Json* value = find(name);
    if (!value) return;
    check(value->is_number() && std::isfinite(value->number()), where_, ": ", name, " is ", value->text(),
          ", expected a number");
    target = value->number();
  }
  void boolean(const char* name, bool& target) const {
    const Json* value = find(name);
    if (!value) return;
    check(value->is_boolean(), where_, ": ", name, " is ", value->text(), ", expected true or false");
    target = value->boolean();
  }
  // One integer, or several.
  void integers(const char* name, std::vector<std::int64_t>& target) const {
    const Json* value = find(name);
    if (!value) return;
    target = integers_of(name, *value);
  }
  void lists(const char* name, std::vector<std::vector<std::int64_t>>& target) const {
    const Json* value = find(name);
    if (!value) return;
    check(value->is_array(), where_, ": ", name, " is ", value->text(), ", expected a list of lists");
    target.clear();
    for (const Json& item : value->items()) target.push_back(integers_of(name, item));
  }
  void early_stopping(EarlyStopping& target) const {
    const Json* value = find("early_stopping");
    if (!value) return;
    if (value->is_string() && value->string() == "never") {
      target = EarlyStopping::never;
      return;
    }
    check(value->is_boolean(), where_, ": early_stopping is ", value->text(), R"(, expected true, false or "never")");
    target = value->boolean() ? EarlyStopping::first : EarlyStopping::heuristic;
  }

 private:
  std::vector<std::int64_t> integers_of(const char* name, const Json& value) const {
    if (value.is_int64()) return {value.int64()};
    check(value.is_array(), where_, ": ", name, " is ", value.text(), ", expected integers");
    std::vector<std::int64_t> all;
    for (const Json& item : value.items()) {
      check(item.is_int64(), where_, ": ", name, " has ", item.text(), ", expected integers");
      all.push_back(item.int64());
    }
    return all;
  }

  Json json_;
  const char* where_;
};

void read_config(const ConfigReader& reader, GenerationDefaults& defaults) {
  reader.integer("max_new_tokens", defaults.max_new_tokens);
  reader.integer("max_length", defaults.max_length);
  reader.integer("min_new_tokens", defaults.min_new_tokens);
  reader.integer("min_length", defaults.min_length);
  reader.boolean("do_sample", defaults.samples);
  reader.number("temperature", defaults.temperature);
  reader.integer("top_k", defaults.top_k);
  reader.number("top_p", defaults.top_p);
  reader.number("min_p", defaults.min_p);
  reader.number("repetition_penalty", defaults.repetition_penalty);
  reader.integer("no_repeat_ngram_size", defaults.no_repeat_ngram);
  reader.integer("num_beams", defaults.beams);
  reader.number("length_penalty", defaults.length_penalty);
  reader.early_stopping(defaults.early_stopping);
  reader.lists("bad_words_ids", defaults.bad_words);
  reader.integers("suppress_tokens", defaults.suppressed);
  reader.integers("begin_suppress_tokens", defaults.suppressed_first);
  reader.integer("forced_bos_token_id", defaults.forced_first);
  reader.integers("forced_eos_token_id", defaults.forced_last);
  reader.integer("decoder_start_token_id", defaults.decoder_start);
  reader.integer("bos_token_id", defaults.bos);
  reader.integers("eos_token_id", defaults.end_ids);
}

void check_given(const char* function, const GenerateOptions& given) {
  const auto at_least = [&](const char* name, const auto& value, double least) {
    if (value)
      check(static_cast<double>(*value) >= least, function, ": ", name, " is ", *value, ", expected ", least,
            " or more");
  };
  at_least("max_new_tokens", given.max_new_tokens, 1);
  at_least("temperature", given.temperature, 0);
  at_least("top_k", given.top_k, 0);
  at_least("no_repeat_ngram", given.no_repeat_ngram, 0);
  at_least("beams", given.beams, 1);
  const auto share = [&](const char* name, const std::optional<double>& value, bool zero) {
    if (!value) return;
    check((zero ? *value >= 0 : *value > 0) && *value <= 1, function, ": ", name, " is ", *value, ", expected ",
          zero ? "0 to 1" : "more than 0, at most 1");
  };
  share("top_p", given.top_p, false);
  share("min_p", given.min_p, true);
  if (given.repetition_penalty) {
    check(*given.repetition_penalty > 0, function, ": repetition_penalty is ", *given.repetition_penalty,
          ", expected a positive number");
  }
  if (given.temperature) check(std::isfinite(*given.temperature), function, ": temperature is not finite");
  if (given.length_penalty) check(std::isfinite(*given.length_penalty), function, ": length_penalty is not finite");
  check(given.min_new_tokens >= 0, function, ": min_new_tokens is ", given.min_new_tokens, ", expected 0 or more");
  check(given.num_return >= 1, function, ": num_return is ", given.num_return, ", expected 1 or more");
  check(given.batch_size >= 1, function, ": batch_size is ", given.batch_size, ", expected 1 or more");
  for (const std::string& stop : given.stop) check(!stop.empty(), function, ": stop has an empty string");
}

void set_rules(const GenerateOptions& given, const GenerationDefaults& defaults, GenerationOptions& options) {
  TokenRules& rules = options.rules;
  for (const auto& [token, bias] : given.logit_bias) rules.bias.emplace_back(std::vector<std::int64_t>{token}, bias);
  for (const std::vector<std::int64_t>& words : defaults.bad_words) {
    const bool is_end = words.size() == 1 &&
                        std::find(defaults.end_ids.begin(), defaults.end_ids.end(), words[0]) != defaults.end_ids.end();
    if (!is_end && !words.empty()) rules.bias.emplace_back(words, -std::numeric_limits<double>::infinity());
  }
  rules.repetition_penalty = given.repetition_penalty.value_or(defaults.repetition_penalty);
  rules.no_repeat_ngram = given.no_repeat_ngram.value_or(defaults.no_repeat_ngram);
  rules.end_ids = options.end_ids;
  rules.min_length = defaults.min_length;
  rules.min_new_tokens = std::max(given.min_new_tokens, defaults.min_new_tokens);
  rules.forced_first = defaults.forced_first;
  rules.forced_last = defaults.forced_last;
  rules.suppressed = defaults.suppressed;
  rules.suppressed.insert(rules.suppressed.end(), given.suppressed.begin(), given.suppressed.end());
  rules.suppressed_first = defaults.suppressed_first;
}

// A single token that is never chosen, as padding is in many models, needs no look at the logits by the host.
void exclude_in_step(GenerationOptions& options) {
  TokenRules& rules = options.rules;
  if (options.samples || rules.bias.size() != 1 || rules.bias[0].first.size() != 1 ||
      !std::isinf(rules.bias[0].second) || rules.bias[0].second > 0) {
    return;
  }
  options.excluded = rules.bias[0].first[0];
  rules.bias.clear();
}

}  // namespace

GenerationDefaults generation_defaults(const TransformerModelOptions& model, const std::string& config,
                                       const std::string& generation_config) {
  GenerationDefaults defaults;
  defaults.bos = model.bos_id;
  defaults.end_ids = model.eos_ids;
  defaults.decoder_start = model.decoder_start_id;
  if (generation_config.empty()) {
    read_config(ConfigReader(config, "config.json"), defaults);
  } else {
    read_config(ConfigReader(generation_config, "generation_config.json"), defaults);
  }
  return defaults;
}

GenerationOptions resolved_options(const char* function, const GenerateOptions& given,
                                   const GenerationDefaults& defaults) {
  check_given(function, given);
  GenerationOptions options;
  const bool draws = given.temperature || given.top_k || given.top_p || given.min_p;
  options.samples = draws ? given.temperature.value_or(1.0) > 0 : defaults.samples && given.beams.value_or(1) == 1;
  options.beam = given.beams.value_or(options.samples ? 1 : defaults.beams);
  check(options.beam <= 1024, function, ": beams is ", options.beam, ", expected at most 1024");
  check(options.beam == 1 || !options.samples, function, ": beams is ", options.beam,
        ", expected 1 where tokens are drawn");
  options.num_return = given.num_return;
  check(options.samples || given.num_return <= options.beam, function, ": num_return is ", given.num_return,
        ", expected at most beams, ", options.beam, ", where nothing is drawn");
  options.length_penalty = given.length_penalty.value_or(defaults.length_penalty);
  options.early_stopping = given.early_stopping.value_or(defaults.early_stopping);
  const double temperature = given.temperature.value_or(defaults.temperature.value_or(1.0));
  options.rule = {.temperature = temperature > 0 ? temperature : 1.0,
                  .top_k = given.top_k.value_or(defaults.top_k.value_or(0)),
                  .top_p = given.top_p.value_or(defaults.top_p.value_or(1.0)),
                  .min_p = given.min_p.value_or(defaults.min_p.value_or(0.0)),
                  .seed = given.seed};
  if (!given.ignore_end) options.end_ids = defaults.end_ids;
  options.end_ids.insert(options.end_ids.end(), given.stop_ids.begin(), given.stop_ids.end());
  options.batch_size = given.batch_size;
  set_rules(given, defaults, options);
  exclude_in_step(options);
  return options;
}

std::int64_t most_new_tokens(const GenerateOptions& given, const GenerationDefaults& defaults, std::int64_t prompt,
                             std::int64_t most_positions, std::int64_t otherwise) {
  std::int64_t most = otherwise;
  if (given.max_new_tokens) {
    most = *given.max_new_tokens;
  } else if (defaults.max_new_tokens) {
    most = *defaults.max_new_tokens;
  } else if (defaults.max_length) {
    most = std::max<std::int64_t>(1, *defaults.max_length - prompt);
  }
  // The last token that is generated is not read again.
  return most_positions > 0 ? std::min(most, most_positions + 1 - prompt) : most;
}

}  // namespace headway::inline v0::internal

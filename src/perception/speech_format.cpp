#include "perception/speech_format.h"

#include <algorithm>

#include "base/check.h"
#include "base/json.h"
#include "text/languages.h"

namespace headway::inline v0::internal {
namespace {

// A field that is there and not null.
const Json* field(const Json& json, const char* name) {
  const Json* value = json.find(name);
  return value != nullptr && !value->is_null() ? value : nullptr;
}

std::int64_t id_of(const Json& value, const std::string& about, const char* name, std::int64_t vocab_size) {
  check(value.is_int64() && value.int64() >= 0 && value.int64() < vocab_size, about, ": ", name, " has ", value.text(),
        ", expected a token from 0 to ", vocab_size - 1);
  return value.int64();
}

std::map<std::string, std::int64_t> ids_by_name(const Json& json, const std::string& about, const char* name,
                                                std::int64_t vocab_size) {
  std::map<std::string, std::int64_t> ids;
  const Json* value = field(json, name);
  if (value == nullptr) return ids;
  check(value->is_object(), about, ": ", name, " is ", value->text(), ", expected an object");
  for (const JsonField& entry : value->fields()) {
    std::string key = entry.name;
    if (key.starts_with("<|") && key.ends_with("|>")) key = key.substr(2, key.size() - 4);
    ids[key] = id_of(entry.value, about, name, vocab_size);
  }
  return ids;
}

// forced_decoder_ids, [[1, 50259], [2, 50359]]: the tokens behind the first one; null is a language to be found out.
std::vector<std::int64_t> forced_tokens(const Json& json, const std::string& about, std::int64_t vocab_size) {
  std::vector<std::int64_t> tokens;
  const Json* value = field(json, "forced_decoder_ids");
  if (value == nullptr) return tokens;
  const char* expected = ": forced_decoder_ids is no list of pairs of a place, from 1 on, and a token";
  check(value->is_array(), about, expected);
  for (const Json& pair : value->items()) {
    check(pair.is_array() && pair.items().size() == 2 && pair.items()[0].is_int64() &&
              pair.items()[0].int64() == static_cast<std::int64_t>(tokens.size()) + 1,
          about, expected);
    const Json& token = pair.items()[1];
    check(!token.is_null() || tokens.empty(), about, expected);
    tokens.push_back(token.is_null() ? -1 : id_of(token, about, "forced_decoder_ids", vocab_size));
  }
  return tokens;
}

std::vector<std::pair<std::int64_t, std::int64_t>> alignment_heads(const Json& json, const std::string& about,
                                                                   const StackOptions& decoder) {
  std::vector<std::pair<std::int64_t, std::int64_t>> heads;
  const auto layers = static_cast<std::int64_t>(decoder.layers.size());
  if (const Json* value = field(json, "alignment_heads")) {
    check(value->is_array(), about, ": alignment_heads is ", value->text(), ", expected a list of pairs");
    for (const Json& pair : value->items()) {
      const bool is_pair =
          pair.is_array() && pair.items().size() == 2 && pair.items()[0].is_int64() && pair.items()[1].is_int64();
      const std::int64_t layer = is_pair ? pair.items()[0].int64() : -1;
      const std::int64_t head = is_pair ? pair.items()[1].int64() : -1;
      check(layer >= 0 && layer < layers && head >= 0 && head < decoder.layers[static_cast<std::size_t>(layer)].heads,
            about, ": alignment_heads has ", pair.text(), ", expected a layer of ", layers, " and a head of it");
      heads.emplace_back(layer, head);
    }
  }
  if (!heads.empty()) return heads;
  for (std::int64_t layer = layers / 2; layer < layers; ++layer) {
    for (std::int64_t head = 0; head < decoder.layers[static_cast<std::size_t>(layer)].heads; ++head) {
      heads.emplace_back(layer, head);
    }
  }
  return heads;
}

std::string text_field(const Json& json, const std::string& about, const char* name) {
  const Json* value = field(json, name);
  if (value == nullptr) return "";
  check(value->is_string(), about, ": ", name, " is ", value->text(), ", expected a text");
  return value->string();
}

std::int64_t task_token(const SpeechFormat& format, const std::string& task) {
  const auto found = format.tasks.find(task);
  if (found != format.tasks.end()) return found->second;
  std::string known;
  for (const auto& [name, token] : format.tasks) known += (known.empty() ? "" : ", ") + name;
  fail("transcribe: task is \"", task, "\", ", known.empty() ? "and the model has one alone" : "expected one of ",
       known);
}

}  // namespace

SpeechFormat read_speech_format(const std::filesystem::path& directory, const TransformerModel& model) {
  SpeechFormat format;
  format.features = LogMelOptions::load(directory);
  const std::int64_t vocab_size = model.options().vocab_size;
  const Json config = parse_json(model.config(), (directory / "config.json").string());
  if (const Json* width = field(config, "median_filter_width")) {
    check(width->is_int64() && width->int64() > 0 && width->int64() < 1000 && width->int64() % 2 == 1,
          (directory / "config.json").string(), ": median_filter_width is ", width->text(),
          ", expected an odd number below 1000");
    format.median_width = width->int64();
  }
  const bool has_generation = !model.generation_config().empty();
  const std::string about = (directory / (has_generation ? "generation_config.json" : "config.json")).string();
  const Json json = has_generation ? parse_json(model.generation_config(), about) : config;
  const Json* start = field(json, "decoder_start_token_id");
  if (start == nullptr) start = field(config, "decoder_start_token_id");
  check(start != nullptr, about, ": there is no decoder_start_token_id");
  format.start = id_of(*start, about, "decoder_start_token_id", vocab_size);
  format.languages = ids_by_name(json, about, "lang_to_id", vocab_size);
  format.tasks = ids_by_name(json, about, "task_to_id", vocab_size);
  format.language = text_field(json, about, "language");
  format.task = text_field(json, about, "task");
  if (const Json* token = field(json, "no_timestamps_token_id")) {
    format.no_timestamps = id_of(*token, about, "no_timestamps_token_id", vocab_size);
  }
  if (const Json* most = field(json, "max_length"); most != nullptr && field(json, "max_new_tokens") == nullptr) {
    check(most->is_int64() && most->int64() > 0, about, ": max_length is ", most->text(), ", expected 1 or more");
    format.max_length = most->int64();
  }
  format.forced = forced_tokens(field(json, "forced_decoder_ids") != nullptr ? json : config, about, vocab_size);
  format.alignment_heads = alignment_heads(json, about, model.options().decoder);
  return format;
}

bool needs_language(const SpeechFormat& format, const std::string& language) {
  return language.empty() && format.language.empty() && !format.languages.empty() &&
         (format.forced.empty() || format.forced[0] < 0);
}

std::vector<std::int64_t> prompt_of(const SpeechFormat& format, std::optional<std::int64_t> language,
                                    const std::string& task) {
  std::vector<std::int64_t> prompt = {format.start};
  const std::string& wanted = task.empty() ? format.task : task;
  prompt.insert(prompt.end(), format.forced.begin(), format.forced.end());
  if (language) {
    prompt.resize(std::max<std::size_t>(prompt.size(), 2));
    prompt[1] = *language;
  }
  if (!wanted.empty() || !format.tasks.empty()) {
    const auto is_task = [&](std::int64_t token) {
      return std::any_of(format.tasks.begin(), format.tasks.end(),
                         [&](const auto& entry) { return entry.second == token; });
    };
    const auto found = std::find_if(prompt.begin(), prompt.end(), is_task);
    if (found == prompt.end()) {
      prompt.push_back(task_token(format, wanted.empty() ? "transcribe" : wanted));
    } else if (!wanted.empty()) {
      *found = task_token(format, wanted);
    }
  }
  if (format.no_timestamps && prompt.back() != *format.no_timestamps) prompt.push_back(*format.no_timestamps);
  std::erase(prompt, -1);
  return prompt;
}

std::string language_code_of(const SpeechFormat& format, const std::string& name) {
  check(!format.languages.empty(), "transcribe: language is \"", name, "\", and the model knows one alone");
  std::string bare = name;
  if (bare.starts_with("<|") && bare.ends_with("|>")) bare = bare.substr(2, bare.size() - 4);
  std::vector<std::string> codes;
  std::string list;
  for (const auto& [code, token] : format.languages) {
    codes.push_back(code);
    list += (list.empty() ? "" : ", ") + code;
  }
  const std::optional<std::string> found = find_language(bare, codes);
  check(found.has_value(), "transcribe: language is \"", name, "\", expected one of ", list);
  return *found;
}

}  // namespace headway::inline v0::internal

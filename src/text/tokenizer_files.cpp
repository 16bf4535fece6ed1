// The tokenizer's files in a Marian model directory: source.spm, target.spm, vocab.json, tokenizer_config.json.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/files.h"
#include "text/translation_tokenizer.h"

namespace headway::inline v0 {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kWho = "tokenizer";
constexpr int kDeepest = 16;  // these files are flat; a parser would go as deep as a hostile one says

std::string about(const fs::path& file) { return std::string(kWho) + ": " + file.string(); }

// The object that a JSON file holds.
Json read_object(const fs::path& file) {
  const std::string bytes = internal::read_whole_file(file, kWho);
  int depth_passed = 0;
  const auto limit_depth = [&depth_passed](int depth, Json::parse_event_t, Json&) {
    depth_passed = std::max(depth_passed, depth);
    return depth <= kDeepest;
  };
  Json parsed;
  try {
    parsed = Json::parse(bytes, limit_depth);
  } catch (const Json::exception& problem) {
    internal::fail(about(file), ": is not JSON: ", problem.what());
  }
  internal::check(depth_passed <= kDeepest, about(file), ": is nested deeper than ", kDeepest);
  internal::check(parsed.is_object(), about(file), ": holds ", parsed.type_name(), ", expected an object");
  return parsed;
}

// Tokens by id: the ids of vocab.json must be 0 .. size - 1, each once.
std::vector<std::string> read_vocabulary(const fs::path& file) {
  const Json vocabulary = read_object(file);
  internal::check(!vocabulary.empty(), about(file), ": has no tokens");
  std::vector<std::string> tokens(vocabulary.size());
  std::vector<bool> seen(tokens.size());
  for (const auto& [token, id] : vocabulary.items()) {
    internal::check(id.is_number_integer(), about(file), ": the id of \"", token, "\" is ", id.type_name(),
                    ", expected an integer");
    const bool huge = id.is_number_unsigned() && id.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max();
    const std::int64_t number = huge ? std::numeric_limits<std::int64_t>::max() : id.get<std::int64_t>();
    internal::check(number >= 0 && number < static_cast<std::int64_t>(tokens.size()), about(file), ": the id of \"",
                    token, "\" is ", number, ", expected 0 to ", tokens.size() - 1, " for ", tokens.size(), " tokens");
    const auto place = static_cast<std::size_t>(number);
    internal::check(!seen[place], about(file), ": \"", token, "\" and \"", tokens[place], "\" have the same id ",
                    number);
    seen[place] = true;
    tokens[place] = token;
  }
  return tokens;
}

// A special token's text: a string, or an object with the text in "content".
std::string special_token(const Json& config, const char* name, const char* usual, const fs::path& file) {
  if (!config.contains(name) || config[name].is_null()) return usual;
  const Json& value = config[name];
  if (value.is_string()) return value.get<std::string>();
  internal::check(value.is_object() && value.contains("content") && value["content"].is_string(), about(file), ": ",
                  name, " is ", value.type_name(), ", expected a string");
  return value["content"].get<std::string>();
}

// Refuses settings under which the ids would differ from those of vocab.json.
void check_config(const Json& config, const TranslationTokenizer& tokenizer, const fs::path& file) {
  if (config.contains("separate_vocabs")) {
    internal::check(config["separate_vocabs"] == false, about(file), ": separate_vocabs is ",
                    config["separate_vocabs"].dump(), ", expected false: one vocabulary for both sides");
  }
  if (!config.contains("added_tokens_decoder")) return;
  const Json& added = config["added_tokens_decoder"];
  internal::check(added.is_object(), about(file), ": added_tokens_decoder is ", added.type_name(),
                  ", expected an object");
  for (const auto& [id, token] : added.items()) {
    const std::string text = special_token(added, id.c_str(), "", file);
    const auto number = std::strtoll(id.c_str(), nullptr, 10);
    const bool same = number >= 0 && number < tokenizer.size() && tokenizer.token(number) == text;
    internal::check(same, about(file), ": added_tokens_decoder gives \"", text, "\" the id ", id,
                    ", which vocab.json does not");
  }
}

}  // namespace

TranslationTokenizer TranslationTokenizer::load(const fs::path& directory) {
  std::error_code ignored;
  internal::check(fs::is_directory(directory, ignored), kWho, ": ", directory.string(), ": no such directory");
  const fs::path config_file = directory / "tokenizer_config.json", vocabulary_file = directory / "vocab.json";
  const bool has_config = fs::exists(config_file, ignored);
  const Json config = has_config ? read_object(config_file) : Json::object();

  auto vocabulary = std::make_shared<Vocabulary>(Vocabulary{.source = SentencePieces::load(directory / "source.spm"),
                                                            .target = SentencePieces::load(directory / "target.spm")});
  vocabulary->tokens = read_vocabulary(vocabulary_file);
  vocabulary->index(about(vocabulary_file), special_token(config, "eos_token", "</s>", config_file),
                    special_token(config, "unk_token", "<unk>", config_file),
                    special_token(config, "pad_token", "<pad>", config_file));
  if (has_config) vocabulary->tokenizer_config = config.dump(2) + "\n";
  TranslationTokenizer tokenizer(std::move(vocabulary));
  check_config(config, tokenizer, config_file);
  return tokenizer;
}

void TranslationTokenizer::save(const fs::path& directory) const {
  std::error_code problem;
  fs::create_directories(directory, problem);
  internal::check(!problem, kWho, ": ", directory.string(), ": cannot be made: ", problem.message());
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < vocabulary_->tokens.size(); ++id) vocabulary.push_back({vocabulary_->tokens[id], id});
  std::string config = vocabulary_->tokenizer_config;
  if (config.empty()) {
    const Json fields = {{"tokenizer_class", "MarianTokenizer"},
                         {"eos_token", token(eos_id())},
                         {"unk_token", token(unk_id())},
                         {"pad_token", token(pad_id())},
                         {"model_max_length", 512},
                         {"separate_vocabs", false},
                         {"source_lang", nullptr},
                         {"target_lang", nullptr},
                         {"sp_model_kwargs", Json::object()},
                         {"clean_up_tokenization_spaces", false}};
    config = fields.dump(2) + "\n";
  }
  const std::pair<const char*, std::string> files[] = {{"source.spm", vocabulary_->source.bytes()},
                                                       {"target.spm", vocabulary_->target.bytes()},
                                                       {"vocab.json", vocabulary.dump(1) + "\n"},
                                                       {"tokenizer_config.json", config}};
  for (const auto& [name, bytes] : files) internal::replace_file(directory / name, bytes, kWho);
}

}  // namespace headway::inline v0

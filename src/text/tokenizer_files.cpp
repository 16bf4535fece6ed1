// The tokenizer's files in a Marian model directory: source.spm, target.spm, vocab.json, tokenizer_config.json.
#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/check.h"
#include "base/files.h"
#include "base/json.h"
#include "base/staged_files.h"
#include "text/sentence_pieces.h"
#include "text/translation_tokenizer.h"

namespace headway::inline v0 {
namespace {

namespace fs = std::filesystem;
using internal::Json;
using internal::JsonField;

// The object that a JSON file holds.
Json read_object(const fs::path& file) {
  Json parsed = internal::read_json(file);
  internal::check(parsed.is_object(), file.string(), ": holds ", parsed.kind_name(), ", expected an object");
  return parsed;
}

// Tokens by id: the ids of vocab.json must be 0 .. size - 1, each once.
std::vector<std::string> read_vocabulary(const fs::path& file) {
  const Json vocabulary = read_object(file);
  const std::string about = file.string();
  std::vector<std::string> tokens(vocabulary.fields().size());
  internal::check(!tokens.empty(), about, ": has no tokens");
  std::vector<bool> seen(tokens.size());
  for (const auto& [token, id] : vocabulary.fields()) {
    internal::check(id.is_integer(), about, ": the id of \"", token, "\" is ", id.kind_name(), ", expected an integer");
    const std::int64_t number = id.is_int64() ? id.int64() : std::numeric_limits<std::int64_t>::max();
    internal::check(number >= 0 && number < static_cast<std::int64_t>(tokens.size()), about, ": the id of \"", token,
                    "\" is ", number, ", expected 0 to ", tokens.size() - 1, " for ", tokens.size(), " tokens");
    const auto place = static_cast<std::size_t>(number);
    internal::check(!seen[place], about, ": \"", token, "\" and \"", tokens[place], "\" have the same id ", number);
    seen[place] = true;
    tokens[place] = token;
  }
  return tokens;
}

// A special token's text: a string, or an object with the text in "content".
std::string special_token(const Json& config, std::string_view name, const char* usual, const fs::path& file) {
  const Json* value = config.find(name);
  if (value == nullptr || value->is_null()) return usual;
  const Json* content = value->is_object() ? value->find("content") : value;
  internal::check(content != nullptr && content->is_string(), file.string(), ": ", name, " is ", value->kind_name(),
                  ", expected a string");
  return content->string();
}

// Refuses settings under which the ids would differ from those of vocab.json.
void check_config(const Json& config, const TranslationTokenizer& tokenizer, const fs::path& file) {
  if (const Json* separate = config.find("separate_vocabs")) {
    internal::check(separate->is_boolean() && !separate->boolean(), file.string(), ": separate_vocabs is ",
                    separate->text(), ", expected false: one vocabulary for both sides");
  }
  const Json* added = config.find("added_tokens_decoder");
  if (added == nullptr) return;
  internal::check(added->is_object(), file.string(), ": added_tokens_decoder is ", added->kind_name(),
                  ", expected an object");
  for (const JsonField& field : added->fields()) {
    const std::string& id = field.name;
    const std::string text = special_token(*added, id, "", file);
    const auto number = std::strtoll(id.c_str(), nullptr, 10);
    const bool same = number >= 0 && number < tokenizer.size() && tokenizer.token(number) == text;
    internal::check(same, file.string(), ": added_tokens_decoder gives \"", text, "\" the id ", id,
                    ", which vocab.json does not");
  }
}

// The config that save() writes for a vocabulary that it made itself.
Json own_config(const std::string& eos, const std::string& unk, const std::string& pad,
                const std::vector<std::string>& languages) {
  Json fields = {{"tokenizer_class", "MarianTokenizer"},
                 {"eos_token", eos},
                 {"unk_token", unk},
                 {"pad_token", pad},
                 {"model_max_length", 512},
                 {"separate_vocabs", false},
                 {"source_lang", nullptr},
                 {"target_lang", nullptr},
                 {"sp_model_kwargs", Json::object()},
                 {"clean_up_tokenization_spaces", false}};
  if (!languages.empty()) fields.set("language_codes", std::vector<Json>(languages.begin(), languages.end()));
  return fields;
}

}  // namespace

// Ids of Helsinki's models follow their training texts, so that any order may be right, and characters that the pieces
// lack may have ids of their own. What holds is that most tokens are pieces of one side.
void TranslationTokenizer::Vocabulary::check_pieces(const std::string& about) const {
  std::int64_t tokens_of_text = 0, unknown = 0;
  const std::string* first = nullptr;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (special[id]) continue;
    ++tokens_of_text;
    if (source.model_->table.has(tokens[id]) || target.model_->table.has(tokens[id])) continue;
    ++unknown;
    if (first == nullptr) first = &tokens[id];
  }
  internal::check(2 * unknown <= tokens_of_text, about, ": ", unknown, " of ", tokens_of_text,
                  " tokens are no pieces of source.spm or target.spm, as \"", first == nullptr ? "" : *first,
                  "\": the vocabulary is not the one of the pieces");
}

// What TranslationTokenizer's constructor makes and save() writes has one order.
void TranslationTokenizer::Vocabulary::check_own_order(const Json& config, const std::string& about) const {
  const bool one_model = source.bytes() == target.bytes();
  const auto is_own = [&](const std::vector<std::string>& codes) {
    return config.text() == own_config(tokens[static_cast<std::size_t>(eos)], tokens[static_cast<std::size_t>(unk)],
                                       tokens[static_cast<std::size_t>(pad)], codes)
                                .text();
  };
  // Directories of older versions do not say the order of the codes.
  std::vector<std::string> codes = languages;
  if (const Json* named = config.find("language_codes"); named != nullptr && named->is_array()) {
    codes.clear();
    for (const Json& code : named->items()) codes.push_back(code.is_string() ? code.string() : std::string());
  }
  if (!one_model || !(is_own(codes) || is_own({}))) return;
  const TranslationTokenizer expected(source, codes);
  for (std::int64_t id = 0; id < std::max<std::int64_t>(expected.size(), static_cast<std::int64_t>(tokens.size()));
       ++id) {
    const bool has = id < static_cast<std::int64_t>(tokens.size());
    const std::string found = has ? tokens[static_cast<std::size_t>(id)] : std::string();
    const std::string wanted = id < expected.size() ? expected.token(id) : std::string();
    internal::check(found == wanted, about, ": the token of id ", id, " is \"", found, "\", expected \"", wanted,
                    "\": the vocabulary is not the one of the pieces");
  }
}

TranslationTokenizer TranslationTokenizer::load(const fs::path& directory) {
  std::error_code ignored;
  internal::check_directory(directory);
  const fs::path config_file = directory / "tokenizer_config.json", vocabulary_file = directory / "vocab.json";
  const bool has_config = fs::exists(config_file, ignored);
  const Json config = has_config ? read_object(config_file) : Json::object();

  auto vocabulary = std::make_shared<Vocabulary>(SentencePieces::load(directory / "source.spm"),
                                                 SentencePieces::load(directory / "target.spm"));
  vocabulary->tokens = read_vocabulary(vocabulary_file);
  vocabulary->index(vocabulary_file.string(), special_token(config, "eos_token", "</s>", config_file),
                    special_token(config, "unk_token", "<unk>", config_file),
                    special_token(config, "pad_token", "<pad>", config_file));
  vocabulary->check_pieces(vocabulary_file.string());
  vocabulary->check_own_order(config, vocabulary_file.string());
  if (has_config) vocabulary->tokenizer_config = config.text(2) + "\n";
  TranslationTokenizer tokenizer(std::move(vocabulary));
  check_config(config, tokenizer, config_file);
  return tokenizer;
}

void TranslationTokenizer::save(const fs::path& directory) const {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < vocabulary_->tokens.size(); ++id) vocabulary.set(vocabulary_->tokens[id], id);
  std::string config = vocabulary_->tokenizer_config;
  if (config.empty()) {
    config = own_config(token(eos_id()), token(unk_id()), token(pad_id()), languages()).text(2) + "\n";
  }
  const std::pair<const char*, std::string> files[] = {{"source.spm", vocabulary_->source.bytes()},
                                                       {"target.spm", vocabulary_->target.bytes()},
                                                       {"vocab.json", vocabulary.text(1) + "\n"},
                                                       {"tokenizer_config.json", config}};
  internal::replace_files(directory, [&files](const fs::path& place) {
    for (const auto& [name, bytes] : files) internal::replace_file(place / name, bytes);
  });
}

}  // namespace headway::inline v0

#include "text/tokenizer/old_files.h"

#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/files.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/old_parts.h"

namespace headway::inline v0::internal {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSentencePieceFiles[] = {"spiece.model", "sentencepiece.bpe.model", "tokenizer.model"};

bool is_file(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored);
}

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

// The family's name in lower case, as "t5": of tokenizer_class, else of config.json's model_type.
std::string family_of(const fs::path& directory, const Json& config) {
  std::string name = string_field(config, "tokenizer_class", directory.string(), "");
  for (const std::string_view ending : {"Fast", "Tokenizer"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  if (!name.empty() && name != "PreTrained" && name != "Auto") return lower(name);
  if (!is_file(directory / "config.json")) return "";
  const Json model = read_json(directory / "config.json");
  return lower(string_field(model, "model_type", (directory / "config.json").string(), ""));
}

}  // namespace

std::string OldParts::token(const char* name, const char* usual) {
  for (const Json* source : {&config, &map}) {
    const Json* value = field_of(*source, name);
    if (value == nullptr) continue;
    const Json* content = value->is_object() ? value->find("content") : value;
    check(content != nullptr && content->is_string(), about, ": ", name, " is ", value->kind_name(),
          ", expected a string");
    add_special(content->string(), value->is_object() && flag_field(*value, "lstrip", about, false));
    config.set(name, content->string());
    return content->string();
  }
  if (usual == nullptr) return "";
  config.set(name, usual);
  add_special(usual, false);
  return usual;
}

void OldParts::add_special(const std::string& content, bool strips_left, bool special) {
  for (const Json& token : added) {
    if (token.at("content").string() == content) return;
  }
  added.push_back({{"id", 0},
                   {"content", content},
                   {"single_word", false},
                   {"lstrip", strips_left},
                   {"rstrip", false},
                   {"normalized", false},
                   {"special", special}});
}

void OldParts::set_vocabulary(std::vector<std::string> tokens) {
  vocabulary.clear();
  for (std::size_t id = 0; id < tokens.size(); ++id) vocabulary[tokens[id]] = static_cast<std::int64_t>(id);
  count = static_cast<std::int64_t>(tokens.size());
}

std::int64_t OldParts::id_of(const std::string& token) const {
  if (const auto found = vocabulary.find(token); found != vocabulary.end()) return found->second;
  for (const Json& one : added) {
    if (one.at("content").string() == token) return one.at("id").int64();
  }
  fail(about, ": \"", shortened(token, 50), "\" is not in the vocabulary");
}

// added_tokens_decoder and added_tokens.json in the order of their ids, then the special tokens.
void OldParts::number_added(const Json& added_tokens) {
  std::map<std::int64_t, Json> by_id;
  if (const Json* decoder = field_of(config, "added_tokens_decoder")) {
    check(decoder->is_object(), about, ": added_tokens_decoder is ", decoder->kind_name(), ", expected an object");
    for (const JsonField& field : decoder->fields()) {
      std::int64_t id = 0;
      for (const char c : field.name) {
        check(c >= '0' && c <= '9' && id < kMostTokens, about, ": added_tokens_decoder has the id \"",
              shortened(field.name, 50), "\"");
        id = 10 * id + (c - '0');
      }
      Json token = {{"id", 0}, {"content", string_field(field.value, "content", about)}};
      for (const char* flag : {"single_word", "lstrip", "rstrip", "normalized", "special"}) {
        token.set(flag, flag_field(field.value, flag, about, false));
      }
      by_id.insert_or_assign(id, std::move(token));
    }
  }
  for (const JsonField& field : added_tokens.fields()) {
    const std::int64_t id = token_id_of(field.value, about + ": added_tokens.json");
    by_id.try_emplace(id, Json{{"id", 0},
                               {"content", field.name},
                               {"single_word", false},
                               {"lstrip", false},
                               {"rstrip", false},
                               {"normalized", true},
                               {"special", false}});
  }
  std::vector<Json> ordered;
  ordered.reserve(by_id.size());
  for (auto& [id, token] : by_id) ordered.push_back(std::move(token));
  for (Json& token : added) {
    bool known = false;
    for (const Json& one : ordered) known |= one.at("content").string() == token.at("content").string();
    if (!known) ordered.push_back(std::move(token));
  }
  std::int64_t next = count;
  for (Json& token : ordered) {
    const auto found = vocabulary.find(token.at("content").string());
    token.set("id", found != vocabulary.end() ? found->second : next++);
  }
  added = std::move(ordered);
}

Json OldParts::template_of(const std::vector<TemplateItem>& single, const std::vector<TemplateItem>& pair) const {
  Json tokens = Json::object();
  const auto pieces = [&](const std::vector<TemplateItem>& items) {
    Json made = Json::array();
    for (const TemplateItem& item : items) {
      const bool text = item.token == "$A" || item.token == "$B";
      const Json inside = {{"id", text ? item.token.substr(1) : item.token}, {"type_id", item.type_id}};
      made.push_back(Json{{text ? "Sequence" : "SpecialToken", inside}});
      if (text) continue;
      tokens.set(item.token, Json{{"id", item.token},
                                  {"ids", std::vector<Json>{id_of(item.token)}},
                                  {"tokens", std::vector<Json>{item.token}}});
    }
    return made;
  };
  Json made = {{"type", "TemplateProcessing"}, {"single", pieces(single)}, {"pair", pieces(pair)}};
  made.set("special_tokens", tokens);
  return made;
}

bool has_old_files(const fs::path& directory) {
  for (const char* name : kSentencePieceFiles) {
    if (is_file(directory / name)) return true;
  }
  return (is_file(directory / "vocab.json") && is_file(directory / "merges.txt")) || is_file(directory / "vocab.txt");
}

OldTokenizer read_old_files(const fs::path& directory, const Json& config, const Json& special_tokens_map,
                            const Json& added_tokens) {
  OldParts parts;
  parts.about = directory.string();
  parts.config = config;
  parts.map = special_tokens_map;
  parts.family = family_of(directory, config);
  const auto read = [&](const char* name) {
    parts.files.emplace_back(name, read_whole_file(directory / name, {}, {.limit = JsonLimits().bytes}));
    return parts.files.back().second;
  };
  parts.added_tokens = added_tokens;
  for (const char* name : kSentencePieceFiles) {
    if (!is_file(directory / name)) continue;
    parts.about = (directory / name).string();
    return convert_sentence_pieces(std::move(parts), name, read(name));
  }
  if (is_file(directory / "vocab.json")) {
    const std::string vocabulary = read("vocab.json"), merges = read("merges.txt");
    return convert_merges(std::move(parts), vocabulary, merges);
  }
  return convert_word_pieces(std::move(parts), read("vocab.txt"));
}

}  // namespace headway::inline v0::internal

// What the conversions of old tokenizer files share.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/tokenizer/old_files.h"

namespace headway::inline v0::internal {

// A special token, or "$A" or "$B", of a template.
struct TemplateItem {
  std::string token;
  int type_id = 0;
};

struct OldParts {
  std::string about = {};
  std::string family = {};  // in lower case, as "t5"; empty: not named
  Json config = Json::object();
  Json map = Json::object();           // special_tokens_map.json
  Json added_tokens = Json::object();  // added_tokens.json
  std::vector<std::pair<std::string, std::string>> files = {};
  std::vector<Json> added = {};  // for tokenizer.json
  std::unordered_map<std::string, std::int64_t> vocabulary = {};
  std::int64_t count = 0;  // of the vocabulary

  // A special token by its name in the config, else the usual one, which is put into the config.
  std::string token(const char* name, const char* usual);
  void add_special(const std::string& content, bool strips_left = false, bool special = true);
  void set_vocabulary(std::vector<std::string> tokens);
  // The id of a token of the vocabulary or, after number_added(), of an added one.
  std::int64_t id_of(const std::string& token) const;
  void number_added(const Json& added_tokens);
  Json template_of(const std::vector<TemplateItem>& single, const std::vector<TemplateItem>& pair) const;
};

OldTokenizer convert_sentence_pieces(OldParts parts, std::string_view file, const std::string& bytes);
OldTokenizer convert_merges(OldParts parts, const std::string& vocabulary, const std::string& merges);
OldTokenizer convert_word_pieces(OldParts parts, const std::string& lines);

// The parts of a tokenizer.json put together.
struct NewParts {
  Json normalizer = {};
  Json pre_tokenizer = {};
  Json post_processor = {};
  Json decoder = {};
  Json model = {};
  const char* tokenizer_class = "";
};
OldTokenizer finished(OldParts parts, NewParts made);

}  // namespace headway::inline v0::internal

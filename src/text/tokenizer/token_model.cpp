#include "text/tokenizer/token_model.h"

#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/json_fields.h"

namespace headway::inline v0::internal {
namespace {

// Longest pieces from left to right, with a prefix on those inside a word; a word that they do not cover is unknown.
class WordPieceModel : public TokenModel {
 public:
  WordPieceModel(const Json& json, const std::string& about)
      : longest_(count_field(json, "max_input_chars_per_word", about, 100)),
        unknown_(string_field(json, "unk_token", about, "[UNK]")) {
    const Json* vocabulary = field_of(json, "vocab");
    check(vocabulary != nullptr, about, ": has no \"vocab\"");
    read_vocabulary(*vocabulary, vocabulary_, about);
    unknown_id_ = vocabulary_.find(unknown_);
    std::vector<ByteTrie::Key> keys;
    keys.reserve(vocabulary_.count());
    for (std::uint32_t id = 0; id < vocabulary_.size(); ++id) {
      if (vocabulary_.has(id)) keys.push_back({vocabulary_.token(id), static_cast<std::int32_t>(id)});
    }
    trie_ = ByteTrie(std::move(keys));
    has_inside_ = true;
    for (const char byte : string_field(json, "continuing_subword_prefix", about, "##")) {
      has_inside_ = has_inside_ && trie_.step(inside_, byte);
    }
  }

  void tokenize(std::string_view word, ModelSpare&, std::vector<WordToken>& tokens) const override {
    const std::size_t before = tokens.size();
    const bool short_enough = static_cast<std::int64_t>(word.size()) <= longest_ || count_characters(word) <= longest_;
    for (std::size_t begin = 0; begin < word.size() && short_enough;) {
      std::uint32_t node = begin == 0 ? ByteTrie::kRoot : inside_;
      std::int32_t best = -1;
      std::size_t end = begin;
      if (begin == 0 || has_inside_) {
        for (std::size_t at = begin; at < word.size() && trie_.step(node, word[at]); ++at) {
          if (const std::int32_t value = trie_.value(node); value >= 0) {
            best = value;
            end = at + 1;
          }
        }
      }
      if (best < 0) {
        tokens.resize(before);
        break;
      }
      push_copy(tokens,
                {static_cast<std::uint32_t>(best), static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
      begin = end;
    }
    if (tokens.size() > before) return;
    check(unknown_id_ >= 0, "WordPiece: unk_token \"", unknown_, "\" is not in the vocabulary");
    push_copy(tokens, {static_cast<std::uint32_t>(unknown_id_), 0, static_cast<std::uint32_t>(word.size())});
  }

 private:
  std::int64_t longest_;  // of a word, in characters
  std::string unknown_;
  std::int64_t unknown_id_ = -1;
  ByteTrie trie_;
  std::uint32_t inside_ = ByteTrie::kRoot;  // behind the prefix of pieces inside a word
  bool has_inside_ = false;
};

class WordLevelModel : public TokenModel {
 public:
  WordLevelModel(const Json& json, const std::string& about)
      : unknown_(string_field(json, "unk_token", about, "<unk>")) {
    const Json* vocabulary = field_of(json, "vocab");
    check(vocabulary != nullptr, about, ": has no \"vocab\"");
    read_vocabulary(*vocabulary, vocabulary_, about);
    unknown_id_ = vocabulary_.find(unknown_);
  }

  void tokenize(std::string_view word, ModelSpare&, std::vector<WordToken>& tokens) const override {
    std::int64_t id = vocabulary_.find(word);
    if (id < 0) id = unknown_id_;
    check(id >= 0, "WordLevel: unk_token \"", unknown_, "\" is not in the vocabulary");
    push_copy(tokens, {static_cast<std::uint32_t>(id), 0, static_cast<std::uint32_t>(word.size())});
  }

 private:
  std::string unknown_;
  std::int64_t unknown_id_ = -1;
};

}  // namespace

void read_vocabulary(const Json& json, Vocabulary& vocabulary, const std::string& about) {
  check(json.is_object(), about, ": vocab is ", json.kind_name(), ", expected an object");
  std::size_t bytes = 0;
  for (const JsonField& field : json.fields()) bytes += field.name.size();
  vocabulary.reserve(json.fields().size(), bytes);
  for (const JsonField& field : json.fields()) {
    const std::uint32_t id = token_id_of(field.value, about);
    check(!vocabulary.has(id), about, ": \"", shortened(field.name, 50), "\" and \"",
          shortened(vocabulary.token(id), 50), "\" have the same id ", id);
    vocabulary.add(field.name, id);
  }
}

std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::vector<std::int32_t> ids(256);
  std::string token = "<0x00>";
  for (std::size_t byte = 0; byte < 256; ++byte) {
    token[3] = kDigits[byte / 16];
    token[4] = kDigits[byte % 16];
    ids[byte] = static_cast<std::int32_t>(vocabulary.find(token));
  }
  return ids;
}

std::unique_ptr<TokenModel> read_word_piece(const Json& json, const std::string& about) {
  return std::make_unique<WordPieceModel>(json, about);
}

std::unique_ptr<TokenModel> read_word_level(const Json& json, const std::string& about) {
  return std::make_unique<WordLevelModel>(json, about);
}

std::unique_ptr<TokenModel> read_model(const Json& json, const std::string& about) {
  check(json.is_object(), about, " is ", json.kind_name(), ", expected an object");
  std::string type = string_field(json, "type", about, "");
  if (type.empty()) {
    // Old files do not name it.
    if (json.find("merges")) type = "BPE";
    if (json.find("max_input_chars_per_word")) type = "WordPiece";
    if (const Json* vocabulary = json.find("vocab"); vocabulary != nullptr && vocabulary->is_array()) type = "Unigram";
    if (type.empty()) type = "WordLevel";
  }
  const std::string named = about + " " + type;
  if (type == "BPE") return read_bpe(json, named);
  if (type == "Unigram") return read_unigram(json, named);
  if (type == "WordPiece") return read_word_piece(json, named);
  if (type == "WordLevel") return read_word_level(json, named);
  fail(about, ": \"", shortened(type, 50), "\" is not known, expected BPE, Unigram, WordLevel or WordPiece");
}

}  // namespace headway::inline v0::internal

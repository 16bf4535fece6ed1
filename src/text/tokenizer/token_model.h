// Models of tokenizer.json: how a word becomes tokens.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/vocabulary.h"
#include "text/tokenizer/word_cache.h"

namespace headway::inline v0::internal {

class Json;

// Buffers that a model reuses from word to word.
struct ModelSpare {
  struct Symbol {
    std::uint32_t id, length;
    std::int32_t previous, next;
  };
  struct Merge {
    std::uint32_t rank, id;
    std::int32_t position;
  };
  struct PathNode {
    double score;
    std::int32_t id;      // -1: not reached yet
    std::uint32_t begin;  // of the piece that ends here
  };
  WordCache cache = {};
  std::vector<Symbol> symbols = {};
  std::vector<std::uint32_t> ranks = {};  // of each symbol with the next
  std::vector<Merge> merges = {};         // a heap
  std::vector<PathNode> path = {};
  std::vector<WordToken> tokens = {};
  std::string key = {};
};

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the tokens of a word, which is not empty, by bytes of the word.
  virtual void tokenize(std::string_view word, ModelSpare& spare, std::vector<WordToken>& tokens) const = 0;
  // Whether a token's text is that of the word, not the vocabulary's.
  virtual bool shows_word() const { return false; }

  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// The model of a JSON object; Errors begin with `about`.
std::unique_ptr<TokenModel> read_model(const Json& json, const std::string& about);

std::unique_ptr<TokenModel> read_bpe(const Json& json, const std::string& about);
std::unique_ptr<TokenModel> read_unigram(const Json& json, const std::string& about);
std::unique_ptr<TokenModel> read_word_piece(const Json& json, const std::string& about);
std::unique_ptr<TokenModel> read_word_level(const Json& json, const std::string& about);

// {"token": id, ...}; two tokens of one id are refused.
void read_vocabulary(const Json& json, Vocabulary& vocabulary, const std::string& about);
// The id of <0x00> .. <0xFF>, -1 where there is none.
std::vector<std::int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace headway::inline v0::internal

// Post-processors of tokenizer.json: the special tokens around texts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headway/text_tokenizer.h"
#include "text/tokenizer/word_cache.h"

namespace headway::inline v0::internal {

class Json;

// The tokens of one text.
struct EncodedText {
  struct Token {
    std::uint32_t id;
    std::uint32_t word;
    TokenOffsets offsets;
    std::uint32_t leading = 0, trailing = 0;  // spaces that the token's text begins and ends with
  };
  std::string_view text = {};
  std::vector<Token> tokens = {};
};

class PostProcessor {
 public:
  // The post-processor of a JSON object, or none for null; Errors begin with `about`.
  void read(const Json* json, const std::string& about);

  // How many special tokens are added.
  std::int64_t added(bool pair) const;
  // One more than the largest id of a special token.
  std::uint32_t size() const { return size_; }
  // Whether tokens' spaces count.
  bool trims() const { return !trims_.empty(); }
  // The tokens [begin, end) of a text, or of two, with special tokens.
  struct Part {
    const EncodedText* text = nullptr;
    std::size_t begin = 0, end = 0;
  };
  // The ids of a text alone, with special tokens.
  std::vector<std::int64_t> ids(std::span<const WordToken> tokens, bool special_tokens) const;
  TokenizedText assemble(const Part& first, const Part* second, bool special_tokens) const;

 private:
  // A special token's ids, or a text.
  struct Piece {
    int sequence = -1;  // 0 or 1: a text
    std::int64_t type_id = 0;
    std::vector<std::uint32_t> ids = {};
  };

  void read_template(const Json& json, const std::string& about);
  std::vector<Piece> read_pieces(const Json& json, const char* name, const std::string& about);
  void read_bert(const Json& json, const std::string& about, bool roberta);
  void append_text(const Part& part, int sequence, std::int64_t type_id, TokenizedText& made) const;

  std::vector<bool> trims_;  // by steps: whether a space in front was added
  bool has_template_ = false;
  std::vector<Piece> single_ = {{0, 0, {}}};
  std::vector<Piece> pair_ = {{0, 0, {}}, {1, 1, {}}};
  std::uint32_t size_ = 0;
};

}  // namespace headway::inline v0::internal

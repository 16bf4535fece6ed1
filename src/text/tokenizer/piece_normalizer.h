// How SentencePiece normalises a text before it is cut into pieces.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer/byte_trie.h"
#include "text/tokenizer/character_map.h"
#include "text/tokenizer/sentence_piece_model.h"

namespace headway::inline v0::internal {

inline constexpr std::string_view kPieceSpace = "\xE2\x96\x81";  // U+2581, which stands for a space

// The symbols that a user defined, which are always one piece.
class UserSymbols {
 public:
  explicit UserSymbols(const SentencePieceModel& model);
  // The length of the longest symbol that `text` begins with; 0: none.
  std::size_t match(std::string_view text) const;

 private:
  ByteTrie trie_;  // empty where there are none
};

class PieceNormalizer {
 public:
  // Without symbols where `symbols` is null; else they must live as long. Errors begin with `about`.
  PieceNormalizer(const PieceRules& rules, bool spaces_behind, const UserSymbols* symbols, const std::string& about);

  // Puts the text's normal form into `normalized`. It is UTF-8; bytes of `text` that are not become U+FFFD.
  void apply(std::string_view text, std::string& normalized) const;

 private:
  struct Part {
    std::string_view text;
    std::size_t length;  // bytes of the input, above 0
  };
  // What the first bytes of a text that is not empty become.
  Part next(std::string_view text) const;

  CharacterMap map_;
  const UserSymbols* symbols_;
  bool add_prefix_, remove_extra_spaces_, spaces_behind_;
  std::string_view space_;
};

}  // namespace headway::inline v0::internal

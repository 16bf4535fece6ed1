// How SentencePiece's models cut a normalised text into pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/piece_normalizer.h"
#include "text/tokenizer/sentence_piece_model.h"
#include "text/tokenizer/vocabulary.h"

namespace headway::inline v0::internal {

// A piece in a text.
struct TextPiece {
  std::int32_t id;
  std::uint32_t begin, end;  // bytes of the normalised text
};

// The pieces by their texts. What SentencePiece does not load is refused: a piece that is there twice, no unknown piece
// or two, byte pieces that are not one for each byte.
class PieceTable {
 public:
  PieceTable(const SentencePieceModel& model, const std::string& about);

  std::int64_t size() const { return static_cast<std::int64_t>(kinds_.size()); }
  std::int32_t unknown_id() const { return unknown_id_; }
  int kind(std::int32_t id) const { return kinds_[static_cast<std::size_t>(id)]; }
  float score(std::int32_t id) const { return scores_[static_cast<std::size_t>(id)]; }
  std::string_view text(std::int32_t id) const;
  // The id of a piece; that of the unknown one where there is none.
  std::int32_t id(std::string_view piece) const;
  bool has(std::string_view piece) const { return reserved_.find(piece) >= 0 || in_texts_.find(piece) >= 0; }
  // The id of a piece that texts may have; -1: none.
  std::int32_t text_id(std::string_view piece) const { return static_cast<std::int32_t>(in_texts_.find(piece)); }
  // The id of <0x00> .. <0xFF>; -1 without byte pieces.
  std::int32_t byte_id(char byte) const { return bytes_[static_cast<unsigned char>(byte)]; }
  // The byte of such a piece.
  char byte(std::int32_t id) const;
  std::size_t longest() const { return longest_; }  // of the pieces that texts may have, in bytes

 private:
  void add(std::int32_t id, const SentencePieceModel::Piece& piece, const std::string& about);

  Vocabulary in_texts_;  // normal, user-defined and unused pieces
  Vocabulary reserved_;  // the unknown one, control and byte pieces
  std::vector<std::uint8_t> kinds_;
  std::vector<float> scores_;
  std::int32_t unknown_id_ = -1;
  std::vector<std::int32_t> bytes_;  // [256]
  std::size_t longest_ = 0;
};

class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  // Appends the pieces of a text, which is UTF-8 and not empty; together they are all of it.
  virtual void encode(std::string_view text, std::vector<TextPiece>& pieces) const = 0;
};

// The encoder of a model's method. The table and the symbols must live as long.
std::unique_ptr<PieceEncoder> make_piece_encoder(const SentencePieceModel& model, const PieceTable& table,
                                                 const UserSymbols& symbols, const std::string& about);
std::unique_ptr<PieceEncoder> make_unigram_pieces(const SentencePieceModel& model, const PieceTable& table,
                                                  const std::string& about);
std::unique_ptr<PieceEncoder> make_bpe_pieces(const PieceTable& table, const UserSymbols& symbols);

}  // namespace headway::inline v0::internal

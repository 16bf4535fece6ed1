// The model behind SentencePieces.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "headway/tokenizer.h"
#include "text/tokenizer/piece_encoder.h"
#include "text/tokenizer/piece_normalizer.h"

namespace headway::inline v0 {

// Pieces of a text. One of the unknown id has the text of its bytes, the others that of their id.
struct EncodedPieces {
  std::string text = {};  // normalised
  std::vector<internal::TextPiece> pieces = {};
};

struct SentencePieces::Model {
  std::string bytes;
  internal::PieceTable table;
  internal::UserSymbols symbols;
  internal::PieceNormalizer normalizer;
  std::unique_ptr<internal::PieceNormalizer> denormalizer;  // null: none
  std::unique_ptr<internal::PieceEncoder> encoder;
  bool byte_fallback;
  bool removes_first_space, removes_first_spaces;  // from decoded texts
  std::string unknown_text;

  Model(std::string file_bytes, const internal::SentencePieceModel& contents, const std::string& about);
  // A model out of a file's bytes, which may come from anyone; an Error begins with `about`.
  static std::shared_ptr<const Model> parse(std::string bytes, const std::string& about);

  // The pieces of a text; invalid UTF-8 becomes U+FFFD.
  EncodedPieces encode(std::string_view text) const;

  struct Piece {
    std::int32_t id;
    std::string_view text;
  };
  std::string decode(const std::vector<Piece>& pieces) const;
};

}  // namespace headway::inline v0

#include "text/tokenizer/piece_encoder.h"

#include <algorithm>

#include "base/check.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {
namespace {

using Model = SentencePieceModel;

// The byte of "<0x41>"; -1: it is none of those.
int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int byte = 0;
  for (const char c : piece.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9', letter = c >= 'A' && c <= 'F';
    if (!digit && !letter) return -1;
    byte = 16 * byte + (digit ? c - '0' : c - 'A' + 10);
  }
  return byte;
}

TextPiece text_piece(std::int32_t id, std::size_t begin, std::size_t end) {
  return {id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
}

// Every character, or symbol of the user, is a piece.
class CharacterPieces final : public PieceEncoder {
 public:
  CharacterPieces(const PieceTable& table, const UserSymbols& symbols) : table_(table), symbols_(symbols) {}

  void encode(std::string_view text, std::vector<TextPiece>& pieces) const override {
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t length = symbols_.match(text.substr(begin));
      if (length == 0) length = static_cast<std::size_t>(character_length(text[begin]));
      pieces.push_back(text_piece(table_.id(text.substr(begin, length)), begin, begin + length));
      begin += length;
    }
  }

 private:
  const PieceTable& table_;
  const UserSymbols& symbols_;
};

// Every word, with the space before it, is a piece.
class WordPieces final : public PieceEncoder {
 public:
  explicit WordPieces(const PieceTable& table) : table_(table) {}

  void encode(std::string_view text, std::vector<TextPiece>& pieces) const override {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(kPieceSpace, begin + 1), text.size());
      pieces.push_back(text_piece(table_.id(text.substr(begin, end - begin)), begin, end));
      begin = end;
    }
  }

 private:
  const PieceTable& table_;
};

}  // namespace

PieceTable::PieceTable(const SentencePieceModel& model, const std::string& about) : bytes_(256, -1) {
  kinds_.reserve(model.pieces.size());
  scores_.reserve(model.pieces.size());
  in_texts_.reserve(model.pieces.size(), model.pieces.size() * 8);
  for (const Model::Piece& piece : model.pieces) {
    check(piece.kind != Model::byte || model.byte_fallback, about, ": has the byte piece \"", piece.text,
          "\" without byte_fallback");
    add(static_cast<std::int32_t>(kinds_.size()), piece, about);
  }
  check(unknown_id_ >= 0, about, ": has no unknown piece");
  const bool all = std::none_of(bytes_.begin(), bytes_.end(), [](std::int32_t id) { return id < 0; });
  check(!model.byte_fallback || all, about, ": has byte_fallback without a piece for each byte");
}

void PieceTable::add(std::int32_t id, const SentencePieceModel::Piece& piece, const std::string& about) {
  const bool in_texts = piece.kind == Model::normal || piece.kind == Model::user_defined || piece.kind == Model::unused;
  Vocabulary& vocabulary = in_texts ? in_texts_ : reserved_;
  check(vocabulary.find(piece.text) < 0, about, ": the piece \"", piece.text, "\" is there twice");
  vocabulary.add(piece.text, static_cast<std::uint32_t>(id));
  if (in_texts) longest_ = std::max(longest_, piece.text.size());
  if (piece.kind == Model::unknown) {
    check(unknown_id_ < 0, about, ": has two unknown pieces");
    unknown_id_ = id;
  }
  if (piece.kind == Model::byte) {
    const int byte = byte_of_piece(piece.text);
    check(byte >= 0, about, ": the byte piece \"", piece.text, "\" is none of <0x00> to <0xFF>");
    bytes_[static_cast<std::size_t>(byte)] = id;
  }
  kinds_.push_back(static_cast<std::uint8_t>(piece.kind));
  scores_.push_back(piece.score);
}

std::string_view PieceTable::text(std::int32_t id) const {
  const auto place = static_cast<std::uint32_t>(id);
  return in_texts_.has(place) ? in_texts_.token(place) : reserved_.token(place);
}

std::int32_t PieceTable::id(std::string_view piece) const {
  std::int64_t found = reserved_.find(piece);
  if (found < 0) found = in_texts_.find(piece);
  return found < 0 ? unknown_id_ : static_cast<std::int32_t>(found);
}

char PieceTable::byte(std::int32_t id) const { return static_cast<char>(byte_of_piece(text(id))); }

std::unique_ptr<PieceEncoder> make_piece_encoder(const SentencePieceModel& model, const PieceTable& table,
                                                 const UserSymbols& symbols, const std::string& about) {
  switch (model.method) {
    case Model::Method::bpe:
      return make_bpe_pieces(table, symbols);
    case Model::Method::words:
      return std::make_unique<WordPieces>(table);
    case Model::Method::characters:
      return std::make_unique<CharacterPieces>(table, symbols);
    case Model::Method::unigram:
      break;
  }
  return make_unigram_pieces(model, table, about);
}

}  // namespace headway::inline v0::internal

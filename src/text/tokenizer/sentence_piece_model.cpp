#include "text/tokenizer/sentence_piece_model.h"

#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"

namespace headway::inline v0::internal {
namespace {

// Reads the fields of a message in protocol-buffer format; every length is checked against the bytes that are there.
class MessageReader {
 public:
  MessageReader(std::string_view bytes, const std::string& about) : rest_(bytes), about_(about) {}

  // Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const std::uint64_t key = varint();
    field_ = key >> 3;
    number_ = 0;
    bytes_ = {};
    switch (key & 7) {
      case 0:
        number_ = varint();
        break;
      case 1:
        bytes_ = take(8);
        break;
      case 2:
        bytes_ = take(varint());
        break;
      case 5:
        bytes_ = take(4);
        break;
      default:
        fail(about_, ": is not a complete SentencePiece model: a field of wire type ", key & 7);
    }
    wire_ = static_cast<int>(key & 7);
    return true;
  }

  std::uint64_t field() const { return field_; }
  std::uint64_t number() const { return expect(0), number_; }
  std::string_view bytes() const { return expect(2), bytes_; }
  float real() const {
    expect(5);
    std::uint32_t bits = 0;
    for (std::size_t n = 0; n < 4; ++n) bits |= std::uint32_t{static_cast<unsigned char>(bytes_[n])} << 8 * n;
    return std::bit_cast<float>(bits);
  }

 private:
  void expect(int wire) const {
    check(wire_ == wire, about_, ": is not a complete SentencePiece model: field ", field_, " has wire type ", wire_,
          ", expected ", wire);
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    fail(about_, ": is not a complete SentencePiece model: a number has more than 64 bits");
  }
  std::string_view take(std::uint64_t count) {
    check(count <= rest_.size(), about_, ": is not a complete SentencePiece model: it ends inside a field");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
  const std::string& about_;
  std::uint64_t field_ = 0, number_ = 0;
  std::string_view bytes_;
  int wire_ = 0;
};

SentencePieceModel::Piece read_piece(std::string_view bytes, const std::string& about) {
  SentencePieceModel::Piece piece;
  for (MessageReader reader(bytes, about); reader.next();) {
    if (reader.field() == 1) piece.text = reader.bytes();
    if (reader.field() == 2) piece.score = reader.real();
    if (reader.field() == 3) {
      const std::uint64_t kind = reader.number();
      const bool known = kind >= SentencePieceModel::normal && kind <= SentencePieceModel::byte;
      if (known) piece.kind = static_cast<int>(kind);
    }
  }
  check(!piece.text.empty(), about, ": a piece is empty");
  check(piece.text.size() <= SentencePieceModel::kLongestPiece, about, ": a piece has ", piece.text.size(),
        " bytes, expected at most ", SentencePieceModel::kLongestPiece);
  check(is_utf8(piece.text), about, ": a piece is not UTF-8");
  check(std::isfinite(piece.score), about, ": the score of the piece \"", piece.text, "\" is ", piece.score,
        ", expected a finite number");
  return piece;
}

void read_training(std::string_view bytes, SentencePieceModel& model, const std::string& about) {
  for (MessageReader reader(bytes, about); reader.next();) {
    if (reader.field() == 3) {
      const std::uint64_t method = reader.number();
      check(method >= 1 && method <= 4, about, ": model_type is ", method,
            ", expected 1 (unigram), 2 (BPE), 3 (words) or 4 (characters)");
      model.method = static_cast<SentencePieceModel::Method>(method);
    }
    if (reader.field() == 24) model.spaces_behind = reader.number() != 0;
    if (reader.field() == 35) model.byte_fallback = reader.number() != 0;
    if (reader.field() == 40) model.unknown_id = static_cast<std::int64_t>(reader.number());
    if (reader.field() == 44) model.unknown_text = reader.bytes();
  }
  check(is_utf8(model.unknown_text), about, ": unk_surface is not UTF-8");
}

void read_rules(std::string_view bytes, PieceRules& rules, const std::string& about) {
  for (MessageReader reader(bytes, about); reader.next();) {
    if (reader.field() == 2) rules.character_map = reader.bytes();
    if (reader.field() == 3) rules.add_prefix = reader.number() != 0;
    if (reader.field() == 4) rules.remove_extra_spaces = reader.number() != 0;
    if (reader.field() == 5) rules.escape_spaces = reader.number() != 0;
  }
}

}  // namespace

SentencePieceModel SentencePieceModel::parse(std::string_view bytes, const std::string& about) {
  SentencePieceModel model;
  for (MessageReader reader(bytes, about); reader.next();) {
    if (reader.field() == 1) {
      check(static_cast<std::int64_t>(model.pieces.size()) < kMostTokens, about, ": has more than ", kMostTokens,
            " pieces");
      model.pieces.push_back(read_piece(reader.bytes(), about));
    }
    if (reader.field() == 2) read_training(reader.bytes(), model, about);
    if (reader.field() == 3) read_rules(reader.bytes(), model.normalizer, about);
    if (reader.field() == 5) read_rules(reader.bytes(), model.denormalizer.emplace(), about);
  }
  check(!model.pieces.empty(), about, ": has no pieces");
  return model;
}

}  // namespace headway::inline v0::internal

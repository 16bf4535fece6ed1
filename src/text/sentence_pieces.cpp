// SentencePiece models: loading, encoding, decoding.
#include "text/sentence_pieces.h"

#include <limits>

#include "base/check.h"
#include "base/files.h"
#include "base/utf8.h"

namespace headway::inline v0 {
namespace {

using internal::kPieceSpace;
using PieceKinds = internal::SentencePieceModel;

// Appends what byte pieces are together: a byte that begins no character is U+FFFD.
void append_bytes(std::string& bytes, std::string& text) {
  for (std::string_view rest = bytes; !rest.empty();) {
    std::string_view after = rest;
    bool valid = true;
    internal::next_character(after, valid);
    const std::size_t length = valid ? rest.size() - after.size() : 1;
    text += valid ? rest.substr(0, length) : "\xEF\xBF\xBD";
    rest.remove_prefix(length);
  }
  bytes.clear();
}

void append_with_plain_spaces(std::string_view piece, std::string& text) {
  for (std::size_t at = piece.find(kPieceSpace); at != std::string_view::npos; at = piece.find(kPieceSpace)) {
    text += piece.substr(0, at);
    text += ' ';
    piece.remove_prefix(at + kPieceSpace.size());
  }
  text += piece;
}

}  // namespace

SentencePieces::Model::Model(std::string file_bytes, const internal::SentencePieceModel& contents,
                             const std::string& about)
    : bytes(std::move(file_bytes)),
      table(contents, about),
      symbols(contents),
      normalizer(contents.normalizer, contents.spaces_behind, &symbols, about),
      encoder(internal::make_piece_encoder(contents, table, symbols, about)),
      byte_fallback(contents.byte_fallback),
      removes_first_space(contents.normalizer.add_prefix || contents.normalizer.remove_extra_spaces),
      removes_first_spaces(contents.normalizer.remove_extra_spaces),
      unknown_text(contents.unknown_text) {
  if (contents.denormalizer && !contents.denormalizer->character_map.empty()) {
    denormalizer = std::make_unique<internal::PieceNormalizer>(*contents.denormalizer, false, nullptr, about);
  }
}

std::shared_ptr<const SentencePieces::Model> SentencePieces::Model::parse(std::string bytes, const std::string& about) {
  internal::check(!bytes.empty(), about, ": is empty, expected a SentencePiece model");
  const auto contents = internal::SentencePieceModel::parse(bytes, about);
  return std::make_shared<Model>(std::move(bytes), contents, about);
}

EncodedPieces SentencePieces::Model::encode(std::string_view text) const {
  constexpr std::size_t kLongest = std::numeric_limits<std::int32_t>::max();
  internal::check(text.size() < kLongest, "SentencePieces::encode: the text has ", text.size(), " bytes");
  EncodedPieces encoded;
  const bool valid = internal::is_utf8(text);
  normalizer.apply(valid ? text : internal::repaired_utf8(text), encoded.text);
  internal::check(encoded.text.size() < kLongest, "SentencePieces::encode: the text has ", encoded.text.size(),
                  " bytes when it is normalised");
  if (encoded.text.empty()) return encoded;
  std::vector<internal::TextPiece> found;
  found.reserve(encoded.text.size() / 3 + 1);
  encoder->encode(encoded.text, found);
  // Unknown characters are their bytes, or one piece with their neighbours.
  encoded.pieces.reserve(found.size());
  bool after_unknown = false;
  for (const internal::TextPiece& piece : found) {
    const int kind = table.kind(piece.id);
    internal::check(kind != PieceKinds::control, "SentencePieces::encode: the text has the control piece \"",
                    table.text(piece.id), "\"");
    const bool is_unknown = kind == PieceKinds::unknown;
    if (is_unknown && byte_fallback) {
      for (std::uint32_t at = piece.begin; at < piece.end; ++at) {
        encoded.pieces.push_back({table.byte_id(encoded.text[at]), at, at + 1});
      }
    } else if (is_unknown && after_unknown) {
      encoded.pieces.back().end = piece.end;
    } else {
      encoded.pieces.push_back(piece);
    }
    after_unknown = is_unknown;
  }
  return encoded;
}

std::string SentencePieces::Model::decode(const std::vector<Piece>& pieces) const {
  std::string text, undecoded;  // bytes of byte pieces wait until they are characters
  bool at_begin = true, has_space = false;
  for (const auto& [id, written] : pieces) {
    const int kind = table.kind(id);
    if (kind == PieceKinds::byte) {
      undecoded += table.byte(id);
      continue;
    }
    append_bytes(undecoded, text);
    if (has_space || !text.empty()) at_begin = false;
    has_space = false;
    if (kind == PieceKinds::control) continue;
    if (kind == PieceKinds::unknown) {
      text += table.text(id) == written ? std::string_view(unknown_text) : written;
      continue;
    }
    std::string_view piece = written;
    if (at_begin && removes_first_space && piece.starts_with(kPieceSpace)) {
      piece.remove_prefix(kPieceSpace.size());
      has_space = !removes_first_spaces;
    }
    append_with_plain_spaces(piece, text);
  }
  append_bytes(undecoded, text);
  if (denormalizer == nullptr) return text;
  std::string denormalized;
  denormalizer->apply(text, denormalized);
  return denormalized;
}

SentencePieces::SentencePieces(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

SentencePieces SentencePieces::load(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = std::size_t{1} << 26;  // real ones have a few megabytes
  return SentencePieces(Model::parse(internal::read_whole_file(file, {}, {.limit = kLargest}), file.string()));
}

std::int64_t SentencePieces::size() const { return model_->table.size(); }

std::string SentencePieces::piece(std::int64_t id) const {
  internal::check(id >= 0 && id < size(), "SentencePieces::piece: id is ", id, ", expected 0 to ", size() - 1);
  return std::string(model_->table.text(static_cast<std::int32_t>(id)));
}

std::vector<std::string> SentencePieces::encode(std::string_view text) const {
  const EncodedPieces encoded = model_->encode(text);
  std::vector<std::string> pieces;
  pieces.reserve(encoded.pieces.size());
  for (const internal::TextPiece& piece : encoded.pieces) {
    const bool is_unknown = piece.id == model_->table.unknown_id();
    pieces.emplace_back(is_unknown ? std::string_view(encoded.text).substr(piece.begin, piece.end - piece.begin)
                                   : model_->table.text(piece.id));
  }
  return pieces;
}

std::string SentencePieces::decode(const std::vector<std::string>& pieces) const {
  std::vector<Model::Piece> known;
  known.reserve(pieces.size());
  for (const std::string& piece : pieces) known.push_back({model_->table.id(piece), piece});
  return model_->decode(known);
}

const std::string& SentencePieces::bytes() const { return model_->bytes; }

}  // namespace headway::inline v0

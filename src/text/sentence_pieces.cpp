// SentencePiece models: loading, encoding, decoding.
#include "text/sentence_pieces.h"

#include "base/check.h"
#include "base/files.h"
#include "base/utf8.h"

namespace headway::inline v0 {

std::shared_ptr<const SentencePieces::Model> SentencePieces::Model::parse(std::string bytes, const std::string& about) {
  auto model = std::make_shared<Model>();
  // An empty file parses as a model without pieces, whose use would end the program.
  internal::check(!bytes.empty(), about, ": is empty, expected a SentencePiece model");
  const sentencepiece::util::Status status = model->processor.LoadFromSerializedProto(bytes);
  internal::check(status.ok(), about, ": is not a complete SentencePiece model: ", status.ToString());
  internal::check(model->processor.GetPieceSize() > 0, about, ": has no pieces");
  model->bytes = std::move(bytes);
  return model;
}

SentencePieces::SentencePieces(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

SentencePieces SentencePieces::load(const std::filesystem::path& file) {
  constexpr std::size_t kLargest = std::size_t{1} << 30;  // real ones have a few megabytes
  return SentencePieces(Model::parse(internal::read_whole_file(file, {}, {.limit = kLargest}), file.string()));
}

std::int64_t SentencePieces::size() const { return model_->processor.GetPieceSize(); }

std::string SentencePieces::piece(std::int64_t id) const {
  internal::check(id >= 0 && id < size(), "SentencePieces::piece: id is ", id, ", expected 0 to ", size() - 1);
  return model_->processor.IdToPiece(static_cast<int>(id));
}

std::vector<std::string> SentencePieces::encode(std::string_view text) const {
  std::vector<std::string> pieces;
  const bool valid = internal::is_utf8(text);
  const std::string repaired = valid ? std::string() : internal::repaired_utf8(text);
  const std::string_view input = valid ? text : std::string_view(repaired);
  const auto status = model_->processor.Encode({input.data(), input.size()}, &pieces);
  internal::check(status.ok(), "SentencePieces::encode: ", status.ToString());
  return pieces;
}

std::string SentencePieces::decode(const std::vector<std::string>& pieces) const {
  std::string text;
  const auto status = model_->processor.Decode(pieces, &text);
  internal::check(status.ok(), "SentencePieces::decode: ", status.ToString());
  return text;
}

const std::string& SentencePieces::bytes() const { return model_->bytes; }

}  // namespace headway::inline v0

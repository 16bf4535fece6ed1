// Texts to the ids of a Marian vocabulary and back.
#include "text/translation_tokenizer.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "text/sentence_pieces.h"

namespace headway::inline v0 {
namespace {

constexpr std::string_view kOpening = ">>", kClosing = "<<";
constexpr std::string_view kWordStart = "\xE2\x96\x81";  // ▁

void check_language_code(const std::string& code) {
  const bool usual = std::all_of(code.begin(), code.end(), [](unsigned char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           c == '+';
  });
  internal::check(usual && !code.empty(), "a language code is \"", code,
                  "\", expected letters, digits, '_', '-' or '+', as in \"deu\"");
}

// The text without white space at its ends.
std::string_view trimmed(std::string_view text) {
  std::string_view rest = text;
  std::size_t first = text.size(), end = 0;
  for (bool valid = true; !rest.empty();) {
    const std::size_t start = text.size() - rest.size();
    if (internal::is_white_space(internal::next_character(rest, valid))) continue;
    first = std::min(first, start);
    end = text.size() - rest.size();
  }
  return first < end ? text.substr(first, end - first) : std::string_view();
}

}  // namespace

std::optional<std::string_view> language_of(std::string_view token) {
  if (token.size() <= kOpening.size() + kClosing.size() || !token.starts_with(kOpening) || !token.ends_with(kClosing)) {
    return {};
  }
  return token.substr(kOpening.size(), token.size() - kOpening.size() - kClosing.size());
}

std::optional<std::int64_t> TranslationTokenizer::Vocabulary::find(std::string_view token) const {
  const auto found = ids.find(token);
  return found == ids.end() ? std::nullopt : std::optional(found->second);
}

void TranslationTokenizer::Vocabulary::index(const std::string& about, const std::string& eos_token,
                                             const std::string& unk_token, const std::string& pad_token) {
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    const bool is_new = ids.emplace(tokens[id], static_cast<std::int64_t>(id)).second;
    internal::check(is_new, about, ": ", tokens[id], " is there twice");
    if (const auto language = language_of(tokens[id])) languages.emplace_back(*language);
  }
  const auto id_of = [&](const std::string& token) {
    const auto id = find(token);
    internal::check(id.has_value(), about, ": lacks the token ", token);
    return *id;
  };
  eos = id_of(eos_token);
  unk = id_of(unk_token);
  pad = id_of(pad_token);
  special.assign(tokens.size(), false);
  for (const std::int64_t id : {eos, unk, pad}) special[static_cast<std::size_t>(id)] = true;
  for (std::size_t id = 0; id < tokens.size(); ++id) special[id] = special[id] || language_of(tokens[id]).has_value();
  source_ids_ = ids_of(source);
  target_ids_ = ids_of(target);
  for (const std::string& token : tokens) target_pieces_.push_back(target.model_->table.id(token));
}

std::vector<std::int64_t> TranslationTokenizer::Vocabulary::ids_of(const SentencePieces& pieces) const {
  std::vector<std::int64_t> result;
  const internal::PieceTable& table = pieces.model_->table;
  result.reserve(static_cast<std::size_t>(table.size()));
  for (std::int32_t id = 0; id < table.size(); ++id) result.push_back(find(table.text(id)).value_or(unk));
  return result;
}

// As in Marian's own tools, a text that begins with ">>" and has a "<<" after it begins with a code, known or not.
std::vector<std::int64_t> TranslationTokenizer::Vocabulary::encode(std::string_view text, bool is_source) const {
  const SentencePieces::Model& model = *(is_source ? source : target).model_;
  const std::vector<std::int64_t>& ids_of_pieces = is_source ? source_ids_ : target_ids_;
  std::vector<std::int64_t> encoded;
  std::string_view rest = text;
  if (rest.starts_with(kOpening)) {
    if (const std::size_t end = rest.find(kClosing); end != std::string_view::npos) {
      encoded.push_back(find(rest.substr(0, end + kClosing.size())).value_or(unk));
      rest.remove_prefix(end + kClosing.size());
    }
  }
  const EncodedPieces found = model.encode(rest);
  encoded.reserve(encoded.size() + found.pieces.size() + 1);
  for (const internal::TextPiece& piece : found.pieces) {
    if (piece.id == model.table.unknown_id()) {  // the vocabulary may have what the pieces lack
      encoded.push_back(find(std::string_view(found.text).substr(piece.begin, piece.end - piece.begin)).value_or(unk));
    } else {
      encoded.push_back(ids_of_pieces[static_cast<std::size_t>(piece.id)]);
    }
  }
  encoded.push_back(eos);
  return encoded;
}

std::string TranslationTokenizer::Vocabulary::decode(const std::vector<std::int64_t>& kept) const {
  std::vector<SentencePieces::Model::Piece> pieces;
  pieces.reserve(kept.size());
  for (const std::int64_t id : kept) {
    const auto place = static_cast<std::size_t>(id);
    if (!special[place]) pieces.push_back({target_pieces_[place], tokens[place]});
  }
  return target.model_->decode(pieces);
}

TranslationTokenizer::TranslationTokenizer(std::shared_ptr<const Vocabulary> vocabulary)
    : vocabulary_(std::move(vocabulary)) {}

TranslationTokenizer::TranslationTokenizer(const SentencePieces& joint,
                                           const std::vector<std::string>& language_codes) {
  auto vocabulary = std::make_shared<Vocabulary>(joint, joint);
  std::vector<std::string>& tokens = vocabulary->tokens;
  tokens = {"</s>", "<unk>"};
  const internal::PieceTable& table = joint.model_->table;
  for (std::int32_t id = 0; id < table.size(); ++id) {
    const int kind = table.kind(id);
    if (kind != internal::SentencePieceModel::control && kind != internal::SentencePieceModel::unknown) {
      tokens.emplace_back(table.text(id));
    }
  }
  for (const std::string& code : language_codes) {
    check_language_code(code);
    tokens.push_back(std::string(kOpening) + code + std::string(kClosing));
  }
  tokens.emplace_back("<pad>");
  vocabulary->index("TranslationTokenizer", "</s>", "<unk>", "<pad>");
  vocabulary_ = std::move(vocabulary);
}

std::int64_t TranslationTokenizer::size() const { return static_cast<std::int64_t>(vocabulary_->tokens.size()); }
std::int64_t TranslationTokenizer::eos_id() const { return vocabulary_->eos; }
std::int64_t TranslationTokenizer::unk_id() const { return vocabulary_->unk; }
std::int64_t TranslationTokenizer::pad_id() const { return vocabulary_->pad; }
const std::vector<std::string>& TranslationTokenizer::languages() const { return vocabulary_->languages; }

std::string TranslationTokenizer::token(std::int64_t id) const {
  internal::check(id >= 0 && id < size(), "TranslationTokenizer::token: id is ", id, ", expected 0 to ", size() - 1);
  return vocabulary_->tokens[static_cast<std::size_t>(id)];
}

std::vector<std::int64_t> TranslationTokenizer::encode_source(std::string_view text, std::string_view language) const {
  if (language.empty()) return vocabulary_->encode(text, true);
  const std::string code = std::string(kOpening) + std::string(language) + std::string(kClosing);
  if (!vocabulary_->find(code)) {
    std::string known;
    for (const std::string& name : languages()) known += (known.empty() ? "" : ", ") + name;
    internal::fail("language is \"", language, "\", expected ",
                   known.empty() ? "none: the vocabulary has no language codes" : known);
  }
  return vocabulary_->encode(code + std::string(text), true);
}

std::vector<std::int64_t> TranslationTokenizer::encode_target(std::string_view text) const {
  return vocabulary_->encode(text, false);
}

std::string TranslationTokenizer::decode_target(const std::vector<std::int64_t>& ids) const {
  for (const std::int64_t id : ids) {
    internal::check(id >= 0 && id < size(), "an id is ", id, ", expected 0 to ", size() - 1);
  }
  std::string text = vocabulary_->decode(ids);
  // Pieces that the target's model does not have keep their mark of a word's beginning.
  for (std::size_t at = text.find(kWordStart); at != std::string::npos; at = text.find(kWordStart, at)) {
    text.replace(at, kWordStart.size(), 1, ' ');
  }
  return std::string(trimmed(text));
}

}  // namespace headway::inline v0

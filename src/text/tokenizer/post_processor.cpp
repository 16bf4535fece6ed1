#include "text/tokenizer/post_processor.h"

#include <algorithm>

#include "base/check.h"
#include "base/push_copy.h"
#include "base/utf8.h"
#include "text/tokenizer/json_fields.h"
#include "text/tokenizer/unicode.h"

namespace headway::inline v0::internal {

namespace {

// Takes characters from both ends of a range of bytes; it does not become less than empty.
void trim_offsets(std::string_view text, std::uint32_t leading, std::uint32_t trailing, TokenOffsets& offsets) {
  auto begin = static_cast<std::size_t>(offsets.begin), end = static_cast<std::size_t>(offsets.end);
  for (; leading > 0 && begin < end; --leading) begin += static_cast<std::size_t>(character_length(text[begin]));
  std::size_t last = end;
  for (; trailing > 0 && last > 0; --trailing) {
    do --last;
    while (last > 0 && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80);
  }
  // Where the text has fewer characters than that before the end, it stays.
  if (trailing == 0) end = std::max(last, begin);
  offsets = {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
}

}  // namespace

void PostProcessor::read(const Json* json, const std::string& about) {
  if (json == nullptr || json->is_null()) return;
  const std::string type = type_of(*json, about), named = about + " " + type;
  if (type == "Sequence") {
    for (const Json& step : array_field(*json, "processors", named)) read(&step, about);
  } else if (type == "ByteLevel") {
    if (flag_field(*json, "trim_offsets", named, true))
      trims_.push_back(flag_field(*json, "add_prefix_space", named, true));
  } else if (type == "TemplateProcessing") {
    read_template(*json, named);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    read_bert(*json, named, type == "RobertaProcessing");
  } else {
    fail(about, ": \"", shortened(type, 50),
         "\" is not known, expected BertProcessing, ByteLevel, RobertaProcessing, Sequence or TemplateProcessing");
  }
}

void PostProcessor::read_template(const Json& json, const std::string& about) {
  check(!has_template_, about, ": is the second that adds special tokens, expected one");
  has_template_ = true;
  single_ = read_pieces(json, "single", about);
  pair_ = read_pieces(json, "pair", about);
  bool uses_second = false;
  for (const Piece& piece : single_) uses_second |= piece.sequence == 1;
  check(!uses_second, about, ": single uses the second text");
}

std::vector<PostProcessor::Piece> PostProcessor::read_pieces(const Json& json, const char* name,
                                                             const std::string& about) {
  constexpr std::size_t kMostPieces = 1000;
  std::vector<Piece> pieces;
  for (const Json& item : array_field(json, name, about)) {
    check(pieces.size() < kMostPieces, about, ": ", name, " has more than ", kMostPieces, " pieces");
    Piece piece;
    const Json* sequence = item.find("Sequence");
    const Json* special = item.find("SpecialToken");
    check((sequence != nullptr) != (special != nullptr), about, ": a piece of ", name,
          " is neither a Sequence nor a SpecialToken");
    const Json& one = sequence ? *sequence : *special;
    const std::string id = string_field(one, "id", about);
    piece.type_id = count_field(one, "type_id", about, 0);
    if (sequence) {
      check(id == "A" || id == "B", about, ": a Sequence is \"", shortened(id, 50), "\", expected A or B");
      piece.sequence = id == "A" ? 0 : 1;
    } else {
      const Json* tokens = field_of(json, "special_tokens");
      const Json* token = tokens ? tokens->find(id) : nullptr;
      check(token != nullptr, about, ": \"", shortened(id, 50), "\" is not in special_tokens");
      const std::vector<Json>& ids = array_field(*token, "ids", about);
      check(ids.size() <= kMostPieces, about, ": \"", shortened(id, 50), "\" has too many ids");
      for (const Json& number : ids) piece.ids.push_back(token_id_of(number, about));
      for (const std::uint32_t number : piece.ids) size_ = std::max(size_, number + 1);
    }
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

void PostProcessor::read_bert(const Json& json, const std::string& about, bool roberta) {
  check(!has_template_, about, ": is the second that adds special tokens, expected one");
  has_template_ = true;
  const auto token = [&](const char* name) {
    const std::vector<Json>& pair = array_field(json, name, about);
    check(pair.size() == 2, about, ": ", name, " has ", pair.size(), " values, expected a token and its id");
    const std::uint32_t id = token_id_of(pair[1], about);
    size_ = std::max(size_, id + 1);
    return std::vector<std::uint32_t>{id};
  };
  const std::vector<std::uint32_t> cls = token("cls"), sep = token("sep");
  const std::int64_t second = roberta ? 0 : 1;
  single_ = {{-1, 0, cls}, {0, 0, {}}, {-1, 0, sep}};
  pair_ = single_;
  if (roberta) pair_.push_back({-1, 0, sep});
  pair_.push_back({1, second, {}});
  pair_.push_back({-1, second, sep});
  if (roberta && flag_field(json, "trim_offsets", about, true)) {
    trims_.push_back(flag_field(json, "add_prefix_space", about, true));
  }
}

std::int64_t PostProcessor::added(bool pair) const {
  std::int64_t count = 0;
  for (const Piece& piece : pair ? pair_ : single_) count += std::ssize(piece.ids);
  return count;
}

std::vector<std::int64_t> PostProcessor::ids(std::span<const WordToken> tokens, bool special_tokens) const {
  std::vector<std::int64_t> made;
  made.reserve(tokens.size() + static_cast<std::size_t>(added(false)));
  for (const Piece& piece : single_) {
    if (piece.sequence >= 0) {
      for (const WordToken& token : tokens) made.push_back(token.id);
    } else if (special_tokens) {
      made.insert(made.end(), piece.ids.begin(), piece.ids.end());
    }
  }
  return made;
}

void PostProcessor::append_text(const Part& part, int sequence, std::int64_t type_id, TokenizedText& made) const {
  for (std::size_t n = part.begin; n < part.end; ++n) {
    const EncodedText::Token& token = part.text->tokens[n];
    TokenOffsets offsets = token.offsets;
    for (const bool adds_space : trims_) {
      // A single space in front of the first token may be the one that the pre-tokenizer added.
      const bool kept = adds_space && token.leading == 1 && (n == part.begin || offsets.begin == 0);
      trim_offsets(part.text->text, kept ? 0 : token.leading, token.trailing, offsets);
    }
    push_copy(made.ids, token.id);
    made.type_ids.push_back(type_id);
    made.offsets.push_back(offsets);
    push_copy(made.sequence, sequence);
    push_copy(made.words, token.word);
  }
}

TokenizedText PostProcessor::assemble(const Part& first, const Part* second, bool special_tokens) const {
  TokenizedText made;
  const std::size_t most = first.end - first.begin + (second ? second->end - second->begin : 0) +
                           static_cast<std::size_t>(added(second != nullptr));
  made.ids.reserve(most);
  made.type_ids.reserve(most);
  made.offsets.reserve(most);
  made.sequence.reserve(most);
  made.words.reserve(most);
  for (const Piece& piece : second ? pair_ : single_) {
    if (piece.sequence >= 0) {
      append_text(piece.sequence == 0 ? first : *second, piece.sequence, piece.type_id, made);
      continue;
    }
    if (!special_tokens) continue;
    for (const std::uint32_t id : piece.ids) {
      made.ids.push_back(id);
      made.type_ids.push_back(piece.type_id);
      made.offsets.push_back({});
      made.sequence.push_back(-1);
      made.words.push_back(-1);
    }
  }
  return made;
}

}  // namespace headway::inline v0::internal

// The vocabulary of a Marian model directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/json.h"
#include "headway/tokenizer.h"

namespace headway::inline v0 {

// Hashes strings and string views alike, for lookups without a copy.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

struct TranslationTokenizer::Vocabulary {
  Vocabulary(SentencePieces source_pieces, SentencePieces target_pieces)
      : source(std::move(source_pieces)), target(std::move(target_pieces)) {}

  SentencePieces source;
  SentencePieces target;
  std::vector<std::string> tokens = {};  // by id
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> ids = {};
  std::vector<bool> special = {};  // by id: left out of decoded texts
  std::vector<std::string> languages = {};
  std::int64_t eos = 0;
  std::int64_t unk = 0;
  std::int64_t pad = 0;
  std::string tokenizer_config = {};  // JSON as it was loaded; empty: save() makes it

  // Fills `ids`, `special` and `languages` from `tokens`; an Error begins with `about`.
  void index(const std::string& about, const std::string& eos_token, const std::string& unk_token,
             const std::string& pad_token);
  std::optional<std::int64_t> find(std::string_view token) const;
  // Refuse a vocabulary of other pieces: by the tokens, and where `config` is our own by their order. Errors begin with
  // `about`.
  void check_pieces(const std::string& about) const;
  void check_own_order(const internal::Json& config, const std::string& about) const;
  // The ids of a text with </s> at the end, cut into pieces by one side's model.
  std::vector<std::int64_t> encode(std::string_view text, bool is_source) const;
  // The text of ids without the special ones, by the target's pieces.
  std::string decode(const std::vector<std::int64_t>& kept) const;

 private:
  // The vocabulary's ids of a model's pieces.
  std::vector<std::int64_t> ids_of(const SentencePieces& pieces) const;

  std::vector<std::int64_t> source_ids_ = {}, target_ids_ = {};  // by the side's own ids; unk where there is none
  std::vector<std::int32_t> target_pieces_ = {};                 // by id: the target's piece
};

// The language of a token like ">>deu<<".
std::optional<std::string_view> language_of(std::string_view token);

}  // namespace headway::inline v0

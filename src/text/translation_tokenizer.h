// The vocabulary of a Marian model directory, for this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "headway/tokenizer.h"

namespace headway::inline v0 {

// Hashes texts and parts of texts alike.
struct TextHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};

struct TranslationTokenizer::Vocabulary {
  SentencePieces source;
  SentencePieces target;
  std::vector<std::string> tokens = {};  // by id
  std::unordered_map<std::string, std::int64_t, TextHash, std::equal_to<>> ids = {};
  std::vector<bool> special = {};  // by id: never part of a text
  std::vector<std::string> languages = {};
  std::int64_t eos = 0;
  std::int64_t unk = 0;
  std::int64_t pad = 0;
  std::string tokenizer_config = {};  // as it was loaded; empty: made on saving

  // Fills `ids`, `special` and `languages` out of `tokens`; an Error begins with `about`.
  void index(const std::string& about, const std::string& eos_token, const std::string& unk_token,
             const std::string& pad_token);
  std::optional<std::int64_t> find(std::string_view token) const;
  // The ids of a text with </s>, pieces by `pieces`.
  std::vector<std::int64_t> encode(std::string_view text, const SentencePieces& pieces) const;
};

// The language that a token like ">>deu<<" stands for.
std::optional<std::string_view> language_of(std::string_view token);

}  // namespace headway::inline v0

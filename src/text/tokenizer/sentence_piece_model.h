// The contents of a SentencePiece model file, which may say anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

// How a text is normalised.
struct PieceRules {
  std::string character_map = {};  // compiled; empty: characters stay as they are
  bool add_prefix = true;          // a space in front, or behind it with `spaces_behind`
  bool remove_extra_spaces = true;
  bool escape_spaces = true;  // as U+2581
};

struct SentencePieceModel {
  enum Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  enum class Method { unigram = 1, bpe = 2, words = 3, characters = 4 };
  struct Piece {
    std::string text = {};  // UTF-8, of 1 to kLongestPiece bytes
    float score = 0;        // finite
    int kind = normal;
  };
  // Real pieces have up to some hundred bytes; the time to encode a text grows with the longest.
  static constexpr std::size_t kLongestPiece = 1024;

  std::vector<Piece> pieces = {};
  Method method = Method::unigram;
  bool byte_fallback = false;
  bool spaces_behind = false;                   // a word's space is its end, not its begin
  std::int64_t unknown_id = 0;                  // not checked: the file may say any number
  std::string unknown_text = " \xE2\x81\x87 ";  // what an unknown piece becomes when it is decoded
  PieceRules normalizer = {};
  std::optional<PieceRules> denormalizer = {};  // of decoded texts

  // Reads the bytes of a file; Errors begin with `about`.
  static SentencePieceModel parse(std::string_view bytes, const std::string& about);
};

}  // namespace headway::inline v0::internal

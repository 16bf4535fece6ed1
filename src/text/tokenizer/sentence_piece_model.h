// The contents of a SentencePiece model file, which may say anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace headway::inline v0::internal {

struct SentencePieceModel {
  enum Kind { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text = {};
    float score = 0;
    int kind = normal;
  };
  std::vector<Piece> pieces = {};
  bool bpe = false;  // else unigram
  bool byte_fallback = false;
  std::int64_t unknown_id = 0;
  std::string character_map = {};  // compiled; empty: texts stay as they are

  // Reads the bytes of a file; Errors begin with `about`.
  static SentencePieceModel parse(std::string_view bytes, const std::string& about);
};

}  // namespace headway::inline v0::internal

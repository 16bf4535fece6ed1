// SentencePiece model files out of parts, for files that the trainer never makes.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace headway_test {

// A number in protocol-buffer format.
inline std::string varint_bytes(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) bytes += static_cast<char>((number & 0x7F) | 0x80);
  return bytes + static_cast<char>(number);
}

inline std::string number_field(std::uint64_t field, std::uint64_t number) {
  return varint_bytes(field << 3) + varint_bytes(number);
}

inline std::string bytes_field(std::uint64_t field, const std::string& bytes) {
  return varint_bytes(field << 3 | 2) + varint_bytes(bytes.size()) + bytes;
}

inline std::string little_endian_bytes(std::uint32_t number) {
  std::string bytes;
  for (int n = 0; n < 4; ++n) bytes += static_cast<char>(number >> 8 * n & 0xFF);
  return bytes;
}

enum PieceKindNumber { kNormalPiece = 1, kUnknownPiece, kControlPiece, kUserPiece, kUnusedPiece, kBytePiece };

struct PieceFile {
  struct Piece {
    std::string text;
    float score = 0;
    int kind = kNormalPiece;
  };
  std::vector<Piece> pieces = {{"<unk>", 0, kUnknownPiece}, {"\xE2\x96\x81", -2}, {"a", -3}};
  std::string training = {};       // fields of trainer_spec
  std::string normalizer = {};     // fields of normalizer_spec
  std::string denormalizer = {};   // fields of denormalizer_spec
  std::string character_map = {};  // precompiled_charsmap

  std::string bytes() const {
    std::string file;
    for (const Piece& piece : pieces) {
      const std::string score =
          varint_bytes(2 << 3 | 5) + little_endian_bytes(std::bit_cast<std::uint32_t>(piece.score));
      const auto kind = static_cast<std::uint64_t>(piece.kind);
      file += bytes_field(1, bytes_field(1, piece.text) + score + number_field(3, kind));
    }
    file += bytes_field(2, training);
    file += bytes_field(3, normalizer + (character_map.empty() ? std::string() : bytes_field(2, character_map)));
    return denormalizer.empty() ? file : file + bytes_field(5, denormalizer);
  }
};

// A compiled character map of these units and texts.
inline std::string character_map_of(const std::vector<std::uint32_t>& units, const std::string& texts) {
  std::string bytes = little_endian_bytes(static_cast<std::uint32_t>(4 * units.size()));
  for (const std::uint32_t unit : units) bytes += little_endian_bytes(unit);
  return bytes + texts;
}

}  // namespace headway_test

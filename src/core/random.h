// Counter-based random numbers: a pure function of (seed, place), so that order and threads do not matter.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace headway::inline v0::internal {

// Philox4x32 with 7 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
constexpr std::array<std::uint32_t, 4> philox4x32_7(std::array<std::uint32_t, 4> counter,
                                                    std::array<std::uint32_t, 2> key) {
  constexpr int kRounds = 7;
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

// The generator's key: the low and the high word of a seed.
constexpr std::array<std::uint32_t, 2> philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

// Which attention weights are dropped. The rule is the same on every device: one Philox call yields eight 16-bit draws
// for the rows {r, r + 8} x columns {c, c + 1, c + 8, c + 9}, one thread's share of a wgmma accumulator.
//
// For row r (the query's position in its sequence), column c (the key's position in its sequence), query head h and
// batch entry or sequence b, all taken modulo 2^32:
//   key     = (low, high word of the seed)
//   counter = ((r / 16) * 8 + r % 8, (c / 16) * 4 + (c % 8) / 2, h, b)
//   word    = 2 * ((r % 16) / 8) + (c % 16) / 8, of the four that result
//   draw    = the low half of that word for even c, the high half for odd c
// A weight is dropped where draw < threshold, and multiplied by `scale` elsewhere.
struct DropoutRule {
  std::uint32_t threshold = 0;  // in 1/65536; 0 drops nothing
  double scale = 1.0;           // 1 / (1 - p), for the p that the threshold stands for
  std::uint64_t seed = 0;

  // Dropout with probability p in [0, 1), rounded to 1/65536 and at most 65535/65536.
  static DropoutRule make(double p, std::uint64_t seed) {
    const auto threshold = static_cast<std::uint32_t>(std::min(std::round(p * 65536.0), 65535.0));
    return {.threshold = threshold, .scale = 65536.0 / (65536.0 - threshold), .seed = seed};
  }

  bool keep(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t c) const {
    return draw(b, h, r, c) >= threshold;
  }

  std::uint32_t draw(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t c) const {
    const auto words = philox4x32_7(
        {static_cast<std::uint32_t>((r / 16) * 8 + r % 8), static_cast<std::uint32_t>((c / 16) * 4 + (c % 8) / 2),
         static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(b)},
        philox_key(seed));
    const std::uint32_t word = words[static_cast<std::size_t>(2 * ((r % 16) / 8) + (c % 16) / 8)];
    return c % 2 == 0 ? word & 0xFFFF : word >> 16;
  }
};

// Which elements of a tensor are dropped. The rule is the same on every device: 16 neighbouring Philox calls yield the
// 16-bit draws of 128 neighbouring elements, so that a vector of 16 calls serves eight vectors of elements.
//
// For element i of the row-major tensor, with block = i / 128 and e = i % 128:
//   key     = (low, high word of the seed)
//   call    = block * 16 + e % 16
//   counter = (low word of call, high word of call, 0, 0xD809)
//   word    = (e / 16) / 2, of the four that result
//   draw    = the low half of that word for even e / 16, the high half for odd
// An element is dropped where draw < threshold, and multiplied by `scale` elsewhere.
struct ElementDropout {
  static constexpr std::int64_t kBlock = 128;
  static constexpr std::int64_t kCalls = 16;            // of a block
  static constexpr std::uint32_t kDomain = 0x0000D809;  // keeps these calls apart from other uses of a seed

  std::uint32_t threshold = 0;  // in 1/65536; 0 drops nothing
  double scale = 1.0;           // 1 / (1 - p), for the p that the threshold stands for
  std::uint64_t seed = 0;

  // Dropout with probability p in [0, 1), rounded to 1/65536 and at most 65535/65536.
  static ElementDropout make(double p, std::uint64_t seed) {
    const DropoutRule same = DropoutRule::make(p, seed);
    return {.threshold = same.threshold, .scale = same.scale, .seed = seed};
  }

  bool keep(std::int64_t i) const { return draw(i) >= threshold; }

  std::uint32_t draw(std::int64_t i) const {
    const std::int64_t e = i % kBlock;
    const auto call = static_cast<std::uint64_t>(i / kBlock * kCalls + e % kCalls);
    const auto words = philox4x32_7(
        {static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32), 0, kDomain}, philox_key(seed));
    const std::int64_t which = e / kCalls;
    const std::uint32_t word = words[static_cast<std::size_t>(which / 2)];
    return which % 2 == 0 ? word & 0xFFFF : word >> 16;
  }
};

}  // namespace headway::inline v0::internal

// How the forward is cut into tiles on Hopper: measured choices, in one place.
#pragma once

namespace headway::inline v0::internal::cuda {

// What a kernel can do beside the softmax of Q K^T; each costs registers or time, so that kernels are made for few
// sets.
namespace rules {
inline constexpr int kPlain = 0;
inline constexpr int kLimits = 1;   // causal, windows, lengths, packed sequences, sinks
inline constexpr int kBias = 2;     // an additive bias; alone: of the elements' dtype, and 16 aligned bytes at a time
inline constexpr int kMask = 4;     // a boolean mask; alone: likewise
inline constexpr int kDropout = 8;  // on the probabilities
inline constexpr int kScores = 16;  // softcap and ALiBi
inline constexpr int kAll = 31;
}  // namespace rules

struct ForwardTile {
  int groups;         // consumer warpgroups of 64 queries each
  int keys;           // of a block
  int stages;         // blocks of keys, and of values, in shared memory: a power of two
  bool share_output;  // the output takes the place of the queries in shared memory
};

// The dimension that a kernel is made for; smaller ones are padded with zeros. 0: too large.
constexpr int padded_dimension(long dimension) {
  for (const int padded : {64, 96, 128, 192, 256}) {
    if (dimension <= padded) return padded;
  }
  return 0;
}

// Few queries and keys are better cut into fewer, or evenly fitting, rows and blocks.
inline constexpr long kShortLength = 1024;

constexpr ForwardTile forward_tile(int dimension, int rule_set, bool is_short) {
  switch (rule_set) {
    case rules::kPlain:
    case rules::kLimits:
      if (dimension == 64) return is_short ? ForwardTile{4, 64, 4, false} : ForwardTile{3, 128, 2, false};
      if (dimension == 96) return {3, 80, 2, false};
      if (dimension == 128) return is_short ? ForwardTile{2, 128, 2, false} : ForwardTile{3, 80, 2, false};
      if (dimension == 192) return {2, 112, 2, true};
      return {2, is_short ? 64 : 80, 2, true};
    case rules::kLimits | rules::kDropout:
      if (dimension <= 128) return {2, 128, 2, false};
      return {2, 64, 2, true};
    case rules::kLimits | rules::kScores:
      if (dimension == 64) return {3, 80, 2, false};
      if (dimension <= 128) return {2, 128, 2, false};
      return {2, 64, 2, true};
    case rules::kLimits | rules::kBias:
      if (dimension == 64) return {3, 64, 2, false};
      if (dimension <= 128) return {2, 128, 2, false};
      return {2, 64, 2, true};
    case rules::kLimits | rules::kMask:
      if (dimension == 64) return {3, 64, 2, false};
      if (dimension <= 128) return {2, 128, 2, false};
      return {2, 64, 2, true};
    default:
      return {2, dimension <= 128 ? 64 : 32, 2, true};
  }
}

}  // namespace headway::inline v0::internal::cuda

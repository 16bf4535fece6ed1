// Dropout on a thread's share of a block's probabilities.
#pragma once

#include <cstdint>

#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_schedule.cuh"

namespace headway::inline v0::internal::cuda {

// All bits of each 16-bit half like its highest.
__device__ __forceinline__ std::uint32_t spread_highest(std::uint32_t halves) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, 0, 0xBB99;" : "=r"(result) : "r"(halves));
  return result;
}

// The draws of core/random.h for one row, and the row eight below it, of a head: Philox4x32 with 7 rounds. Of its
// counter (row, column, head, sequence) only the column changes from block to block, so that rounds 1 to 3 are mostly
// known.
class DropoutRow {
 public:
  __device__ __forceinline__ DropoutRow(const ScoreOptions& given, const ForwardWork& work, int row) : options(given) {
    const auto keys = options.dropout_keys;
    const std::uint64_t row1 = times_first(static_cast<std::uint32_t>(row / 16 * 8 + row % 8));
    const std::uint64_t head1 = times_second(static_cast<std::uint32_t>(work.head));
    const std::uint64_t row2 = times_second(high(row1) ^ static_cast<std::uint32_t>(work.sequence) ^ keys[0].y);
    const std::uint64_t row3 = times_first(high(row2) ^ low(head1) ^ keys[1].x);
    mix1 = high(head1) ^ keys[0].x;
    mix2 = low(row1) ^ keys[1].y;
    mix3 = {low(row2) ^ keys[2].x, high(row3) ^ keys[2].y};
    low3 = low(row3);
  }

  // The words of kCount calls, for 16 columns each; `column` is a multiple of 16 plus 2 * (lane % 4). A call is a long
  // chain of dependent steps: all calls do a round before any does the next.
  template <int kCount>
  __device__ __forceinline__ void draw(int column, std::uint32_t (&words)[kCount][4]) const {
    const auto place = static_cast<std::uint32_t>(column / 16 * 4 + column % 8 / 2);
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      const std::uint64_t product = times_first((place + 4 * k) ^ mix1);
      words[k][2] = high(product) ^ mix2;
      words[k][3] = low(product);
    }
#pragma unroll
    for (std::uint32_t(&word)[4] : words) {
      const std::uint64_t product = times_second(word[2]);
      word[0] = high(product) ^ mix3.x;
      word[1] = low(product);
      word[2] = word[3] ^ mix3.y;
      word[3] = low3;
    }
#pragma unroll
    for (int round = 3; round < 7; ++round) {
      const uint2 key = options.dropout_keys[round];
#pragma unroll
      for (std::uint32_t(&word)[4] : words) {
        const std::uint64_t first = times_first(word[0]), second = times_second(word[2]);
        word[0] = high(second) ^ word[1] ^ key.x;
        word[1] = low(second);
        word[2] = high(first) ^ word[3] ^ key.y;
        word[3] = low(first);
      }
    }
  }

  // Of the 16 columns' four packed pairs, the weights whose draw is below the threshold become 0. With h a draw's
  // highest bit and l the others, it is kept where h or l >= threshold (threshold <= 2^15), else where h and
  // l >= threshold - 2^15; the comparison of l is a carry into the highest bit.
  __device__ __forceinline__ void drop(const std::uint32_t (&words)[4], std::uint32_t (&packed)[4]) const {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t word = words[j / 2 + j % 2 * 2];
      const std::uint32_t carried = (word & 0x7FFF7FFFu) + options.dropout_addend;
      packed[j] &= spread_highest((word & carried) | ((word | carried) & options.dropout_either));
    }
  }

 private:
  static __device__ __forceinline__ std::uint64_t times_first(std::uint32_t x) {
    return std::uint64_t{0xD2511F53u} * x;
  }
  static __device__ __forceinline__ std::uint64_t times_second(std::uint32_t x) {
    return std::uint64_t{0xCD9E8D57u} * x;
  }
  static __device__ __forceinline__ std::uint32_t high(std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); }
  static __device__ __forceinline__ std::uint32_t low(std::uint64_t x) { return static_cast<std::uint32_t>(x); }

  const ScoreOptions& options;
  std::uint32_t mix1, mix2, low3;  // what a round combines with what the column gives
  uint2 mix3;
};

// Dropped weights become 0; they have counted in the rows' sums already. `row` and `column` are the thread's first,
// inside the sequence.
template <int kSteps>
__device__ __forceinline__ void drop_probabilities(const ScoreOptions& options, const ForwardWork& work, int row,
                                                   int column, std::uint32_t (&packed)[kSteps][4]) {
  constexpr int kTogether = kSteps % 4 == 0 ? 4 : kSteps;
  static_assert(kTogether <= 5);
  const DropoutRow draws(options, work, row);
#pragma unroll
  for (int first = 0; first < kSteps; first += kTogether) {
    std::uint32_t words[kTogether][4];
    draws.draw(column + 16 * first, words);
#pragma unroll
    for (int k = 0; k < kTogether; ++k) draws.drop(words[k], packed[first + k]);
  }
}

}  // namespace headway::inline v0::internal::cuda

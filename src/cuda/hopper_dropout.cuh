// Dropout on the probabilities. Warps of their own draw which of them are kept, ahead of the consumers, and hand them
// over in shared memory, one bit each.
#pragma once

#include <cstdint>

#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_schedule.cuh"

namespace headway::inline v0::internal::cuda {

// Bytes of (high, low) by the selector's digits; a digit of 8 and more gives eight copies of that byte's highest bit.
__device__ __forceinline__ std::uint32_t permute_bytes(std::uint32_t low, std::uint32_t high, std::uint32_t selector) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selector));
  return result;
}

// Draws the bits of blocks of keys, each as a thread of a consumer needs them.
template <class S>
struct DropoutDraws {
  static constexpr int kSteps = S::kKeys / 16;
  static constexpr int kTogether = kSteps < 4 ? kSteps : 4;  // calls at a time, each a long chain of dependent steps
  static_assert(kSteps <= 8 && kSteps % kTogether == 0);

  // Bit 8 - kSteps + k of the bytes: of the 16 columns k, the values of the packed pairs {0, 1} and, in the second
  // word, {2, 3}. The rule is core/random.h's: one call serves the eight values. Rows and columns are counted inside
  // the sequence; `column` is a multiple of 16 plus 2 * (lane % 4).
  static __device__ __forceinline__ uint2 draw(const ScoreOptions& options, const ForwardWork& work, int row,
                                               int column) {
    uint2 kept = {0, 0};
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kTogether) {
      std::uint32_t words[kTogether][4];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        words[k][0] = static_cast<std::uint32_t>(row / 16 * 8 + row % 8);
        words[k][1] = static_cast<std::uint32_t>((column / 16 + first + k) * 4 + column % 8 / 2);
        words[k][2] = static_cast<std::uint32_t>(work.head);
        words[k][3] = static_cast<std::uint32_t>(work.sequence);
      }
      draw_together(words, options.seed);
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
#pragma unroll
        for (std::uint32_t& word : words[k]) word = find_kept(options, word);
        // The bytes 1 and 3 of both, whose highest bits are the halves'.
        kept.x = (kept.x >> 1 & 0x7F7F7F7Fu) | (permute_bytes(words[k][0], words[k][2], 0x7531) & 0x80808080u);
        kept.y = (kept.y >> 1 & 0x7F7F7F7Fu) | (permute_bytes(words[k][1], words[k][3], 0x7531) & 0x80808080u);
      }
    }
    return kept;
  }

  // The work of these warps: the blocks of every tile in the consumers' order, each consumer's four warps shared out.
  static __device__ __forceinline__ void run(const ForwardParams& p, const SharedLayout<S>& shared) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 - S::kFirstDrawWarp;
    Ring<2> slots;
    Ring<S::kDropoutStages> rings[S::kGroups];
    while (true) {
      const ForwardWork work = shared.await_work(slots);
      if (work.sequence < 0) return;
      const int end = p.options.dropout_threshold == 0 ? work.first : work.end;
      for (int n = end - 1; n >= work.first; --n) {
#pragma unroll
        for (int g = 0; g < S::kGroups; ++g) {
          if (n >= own_end<S>(work, g)) continue;
          const int stage = rings[g].stage();
          barrier_wait(shared.dropout_empty(g, stage), rings[g].parity() ^ 1);
          // Of all consumers' warps 4 g + warp, every kDrawWarps-th.
          for (int warp = (first + 4 * g * (S::kDrawWarps - 1)) % S::kDrawWarps; warp < 4; warp += S::kDrawWarps) {
            const int row = work.row + g * 64 + warp * 16 + lane / 4;
            const uint2 kept = draw(p.options, work, row, n * S::kKeys + 2 * (lane % 4));
            store_shared(shared.dropout(g, stage) + 8 * (warp * 32 + lane), kept);
            __syncwarp();
            if (lane == 0) barrier_arrive(shared.dropout_full(g, stage));
          }
          rings[g].advance();
        }
      }
      shared.release_work(slots);
    }
  }

 private:
  // Philox4x32 with 7 rounds of several counters, in place. A round is a long chain of dependent steps; the loop has
  // the compiler do one round of all counters before the next, the first apart, most of which all counters share.
  static __device__ __forceinline__ void draw_together(std::uint32_t (&counters)[kTogether][4], std::uint64_t seed) {
    std::uint32_t key0 = static_cast<std::uint32_t>(seed), key1 = static_cast<std::uint32_t>(seed >> 32);
    const auto compute_round = [&] {
#pragma unroll
      for (std::uint32_t(&counter)[4] : counters) {
        const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
        const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
        counter[0] = static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0;
        counter[1] = static_cast<std::uint32_t>(product1);
        counter[2] = static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1;
        counter[3] = static_cast<std::uint32_t>(product0);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    };
    compute_round();
#pragma unroll 2
    for (int round = 1; round < 7; ++round) compute_round();
  }

  // The highest bit of each 16-bit half: that half >= threshold, which is below 2^16. With h the half's highest bit and
  // l the other bits, half >= threshold where h or l >= threshold (threshold <= 2^15), else where h and
  // l >= threshold - 2^15; the comparison of l is a carry into the highest bit.
  static __device__ __forceinline__ std::uint32_t find_kept(const ScoreOptions& options, std::uint32_t halves) {
    const std::uint32_t carried = (halves & 0x7FFF7FFFu) + options.dropout_addend;
    return (halves & carried) | ((halves | carried) & options.dropout_either);
  }
};

// A consumer's side: which values of its block are kept.
template <class S>
struct DropoutBlock {
  static constexpr int kSteps = S::kKeys / 16;
  Ring<S::kDropoutStages> ring;
  uint2 kept;  // as drawn

  // The next block's, which makes room for another's.
  __device__ __forceinline__ void take(const SharedLayout<S>& shared, int group) {
    const int stage = ring.stage();
    barrier_wait(shared.dropout_full(group, stage), ring.parity());
    kept = load_shared_pair(shared.dropout(group, stage) + 8 * (threadIdx.x % 128));
    __syncwarp();
    if (threadIdx.x % 32 == 0) barrier_arrive(shared.dropout_empty(group, stage));
    ring.advance();
  }

  // Dropped weights become 0; they have counted in the sum already.
  __device__ __forceinline__ void apply(std::uint32_t (&packed)[kSteps][4]) const {
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t bits = (j / 2 == 0 ? kept.x : kept.y) << (kSteps - 1 - k);
        packed[k][j] &= permute_bytes(bits, 0, j % 2 == 0 ? 0x9988 : 0xBBAA);
      }
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

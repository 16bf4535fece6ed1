// A consumer warpgroup of the Hopper backward for dims up to 128: 64 keys of a block, all products with them, and half
// the columns of dQ.
#pragma once

#include <cstdint>

#include "cuda/hopper_backward_scores.cuh"
#include "cuda/hopper_wgmma.cuh"

namespace headway::inline v0::internal::cuda {

template <class Tiles>
struct BackwardConsumer : BackwardScores<Tiles, Tiles::kRows> {
  using Scores = BackwardScores<Tiles, Tiles::kRows>;
  using T = typename Tiles::Element;
  using Scores::arrive, Scores::barriers, Scores::base, Scores::dp, Scores::group, Scores::kDim, Scores::kKeys;
  using Scores::kRows, Scores::packed_ds, Scores::packed_p, Scores::s, Scores::thread, Scores::work;

  float dq[kDim / 4];  // dQ: (64 queries, half the columns)
  float dk[kDim / 2];  // dK: (64 keys, kDim)
  float dv[kDim / 2];  // dV: likewise
  // K and V of its 64 keys by steps of 16 columns, where they are kept
  std::uint32_t key[Tiles::kFragments ? kDim / 16 : 1][4], value[Tiles::kFragments ? kDim / 16 : 1][4];

  __device__ __forceinline__ BackwardConsumer(const BackwardParameters& parameters, const BackwardWork& its_work,
                                              std::uint32_t base_address, char* base_pointer)
      : Scores(parameters, its_work, base_address, base_pointer) {
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) dk[i] = dv[i] = 0.f;
  }

  // ---- products: each issues one group ----
  // D = A B^T over kDim columns. A: this warpgroup's 64 rows of (kKeys, kDim), B: (kRows, kDim)
  __device__ __forceinline__ void issue_inner(float (&d)[32], std::uint32_t a_at, std::uint32_t b_at) {
    const std::uint32_t a = operand(base + a_at + group * 64 * 128, 16), b = operand(base + b_at, 16);
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const std::uint64_t da = descriptor(a, (k / 4) * kKeys * 128 + (k % 4) * 32);
      const std::uint64_t db = descriptor(b, (k / 4) * kRows * 128 + (k % 4) * 32);
      if (k == 0) {
        wgmma_ss_first<T>(d, da, db);
      } else {
        wgmma_ss<T>(d, da, db);
      }
    }
    wgmma_commit();
  }
  // The same with A in registers.
  __device__ __forceinline__ void issue_inner(float (&d)[32], const std::uint32_t (&a)[kDim / 16][4],
                                              std::uint32_t b_at) {
    static_assert(kDim == 64);
    const std::uint32_t b = operand(base + b_at, 16);
    wgmma_rs_first<T, Major::inner>(d, a[0], descriptor(b, 0));
#pragma unroll
    for (int k = 1; k < kDim / 16; ++k) wgmma_rs<T, Major::inner>(d, a[k], descriptor(b, k * 32));
    wgmma_commit();
  }
  // D += A B over the tile's queries. A: (64 keys, kRows) in registers, B: (kRows, kDim)
  __device__ __forceinline__ void issue_outer(float (&d)[kDim / 2], const std::uint32_t (&a)[4][4],
                                              std::uint32_t b_at) {
    const std::uint32_t b = operand(base + b_at, kRows * 128);
#pragma unroll
    for (int k = 0; k < kRows / 16; ++k) wgmma_rs<T>(d, a[k], descriptor(b, k * 2048));
    wgmma_commit();
  }
  // S^T = K Q^T
  __device__ __forceinline__ void issue_scores(int stage) {
    const std::uint32_t query_at = Tiles::kQueryAt + stage * Tiles::kRowBytes;
    if constexpr (Tiles::kFragments) {
      issue_inner(s, key, query_at);
    } else {
      issue_inner(s, Tiles::kKeyAt, query_at);
    }
  }
  // dP^T = V dO^T
  __device__ __forceinline__ void issue_dp(int stage) {
    const std::uint32_t d_output_at = Tiles::kDOutputAt + stage * Tiles::kRowBytes;
    if constexpr (Tiles::kFragments) {
      issue_inner(dp, value, d_output_at);
    } else {
      issue_inner(dp, Tiles::kValueAt, d_output_at);
    }
  }
  // dV += P^T dO
  __device__ __forceinline__ void issue_dv(int stage) {
    issue_outer(dv, packed_p, Tiles::kDOutputAt + stage * Tiles::kRowBytes);
  }
  // dK += dS^T Q
  __device__ __forceinline__ void issue_dk(int stage) {
    issue_outer(dk, packed_ds, Tiles::kQueryAt + stage * Tiles::kRowBytes);
  }
  // dQ = dS K over all keys of the block, this warpgroup's half of the columns
  __device__ __forceinline__ void issue_dq(int buffer) {
    const int column = group * kDim / 2;
    const std::uint32_t a = operand(base + Tiles::kScoresAt + buffer * Tiles::kScoreBytes, 16);
    const std::uint32_t b = operand(base + Tiles::kKeyAt + (column / 64) * kKeys * 128 + (column % 64) * 2, 16);
    issue_outer_product<T, kKeys>(dq, a, b);
  }

  // ---- between them ----
  // dS^T into a buffer of the block, for the dQ of both warpgroups.
  __device__ __forceinline__ void store_scores(int buffer) {
#pragma unroll
    for (int k = 0; k < Scores::kSteps; ++k) {
      stmatrix(this->score_address(Tiles::kScoresAt + buffer * Tiles::kScoreBytes, k), packed_ds[k][0], packed_ds[k][1],
               packed_ds[k][2], packed_ds[k][3]);
    }
    fence_async();
    arrive(barriers.scores_full(buffer));
  }

  // Adds dQ to the sums of all key blocks.
  __device__ __forceinline__ void reduce_dq() {
    if constexpr (Tiles::kSumBuffers > 0) {
      this->stage_sums(dq);
    } else {
      this->await_turn();
      this->add_columns(dq, 0);
      this->end_turn();
    }
  }

  // ---- the loop ----
  // Where the Q and dO of tile i lie, and the parity of their barriers.
  static __device__ __forceinline__ int stage_of(int i) { return i & (Tiles::kStages - 1); }
  static __device__ __forceinline__ int phase_of(int i) { return i / Tiles::kStages & 1; }

  // On entry to a step P(i) and dP(i) are there and nothing is under way; dQ comes one tile late, so that the
  // warpgroups need not keep step.
  template <bool kMasked>
  __device__ __forceinline__ void step(int i) {
    const int stage = stage_of(i), next = stage_of(i + 1), next_phase = phase_of(i + 1);
    issue_gradients<kMasked>(i);
    wgmma_wait<2>();
    if (i > 0) {
      arrive(barriers.scores_empty((i & 1) ^ 1));
      reduce_dq();
    }
    this->look_ahead();
    wgmma_wait<1>();
    arrive(barriers.d_output_empty(stage));
    barrier_wait(barriers.query_full(next), next_phase);
    wgmma_fence();
    issue_scores(next);
    if constexpr (Tiles::kPingPong) named_arrive(2 - group, 256);
    wgmma_wait<1>();
    this->release_query(stage);
    barrier_wait(barriers.d_output_full(next), next_phase);
    wgmma_fence();
    issue_dp(next);
    this->take_bias(i + 1);
    wgmma_wait<1>();
    this->probabilities(next);
    wgmma_wait<0>();
  }

  // dQ(i - 1), dV += P(i)^T dO(i), dK += dS(i)^T Q(i). Before the first tile the result
  // of dQ is computed from an empty buffer and discarded, because products under a branch would be serialised.
  template <bool kMasked>
  __device__ __forceinline__ void issue_gradients(int i) {
    const int stage = stage_of(i), buffer = i & 1, other = buffer ^ 1;
    this->template gradients<kMasked>(stage);
    barrier_wait(barriers.scores_empty(buffer), (i >> 1 & 1) ^ 1);
    store_scores(buffer);
    if constexpr (Tiles::kPingPong) named_sync(1 + group, 256);
    if (i > 0) barrier_wait(barriers.scores_full(other), (i - 1) >> 1 & 1);
    wgmma_fence();
    issue_dq(other);
    issue_dv(stage);
    issue_dk(stage);
  }

  // All steps but the last tile's, from tile 0 on; returns the last tile. Tiles with hidden elements have loops of
  // their own: a branch would keep dS from being packed and stored as it is computed.
  __device__ __forceinline__ int run_steps() {
    int i = 0;
    if constexpr (Tiles::kHides) {
      for (; i + 1 < work.tiles; ++i) step<true>(i);
    } else if constexpr (Tiles::kLimited) {
      while (i + 1 < work.tiles) {
        for (; i + 1 < work.tiles && !this->masked; ++i) step<false>(i);
        for (; i + 1 < work.tiles && this->masked; ++i) step<true>(i);
      }
    } else {
      // A vote, so that the compiler does not know `masked` in the loops: with its branch at the end of a step it waits
      // for dP only after the exponentials.
      if (__any_sync(0xffffffffu, this->masked)) {
        for (; i + 1 < work.tiles; ++i) step<true>(i);
      } else {
        for (; i + 1 < work.tiles; ++i) step<false>(i);
      }
    }
    return i;
  }

  // All tiles: fills dk and dv.
  __device__ __forceinline__ void accumulate() {
    if constexpr (Tiles::kPingPong) {
      if (group == 1) named_arrive(1, 256);
    }
    if constexpr (Tiles::kFragments) {
#pragma unroll
      for (int k = 0; k < kDim / 16; ++k) {
        ldmatrix(key[k], this->score_address(Tiles::kKeyAt, k));
        ldmatrix(value[k], this->score_address(Tiles::kValueAt, k));
      }
    }
    barrier_wait(barriers.query_full(0), 0);
    wgmma_fence();
    issue_scores(0);
    barrier_wait(barriers.d_output_full(0), 0);
    issue_dp(0);
    this->look_ahead();
    this->take_bias(0);
    wgmma_wait<1>();
    this->probabilities(0);
    wgmma_wait<0>();
    const int last = run_steps();
    issue_gradients<true>(last);
    if constexpr (Tiles::kPingPong) named_arrive(2 - group, 256);
    wgmma_wait<2>();
    if (last > 0) reduce_dq();
    wgmma_wait<0>();
    barrier_wait(barriers.scores_full(last & 1), last >> 1 & 1);
    wgmma_fence();
    issue_dq(last & 1);
    wgmma_wait<0>();
    reduce_dq();
  }

  // dV goes over V at once, dK over K when no warpgroup reads it any more.
  __device__ __forceinline__ void store_results() {
    arrive(barriers.key_free());
    this->stage_result(dv, Tiles::kDropout ? this->p.dropout.scale : 1.f, Tiles::kValueAt);
    barrier_wait(barriers.key_free(), 0);
    this->stage_result(dk, this->p.scale, Tiles::kKeyAt);
    fence_async();
    named_sync(3 + group, 128);
    this->store_staged(0, kDim / 64);
  }

  __device__ __forceinline__ void run() {
    barrier_wait(barriers.key_full(), 0);
    barrier_wait(barriers.value_full(), 0);
    this->clear_unseen();
    if (work.tiles > 0) accumulate();
    store_results();
  }
};

}  // namespace headway::inline v0::internal::cuda

// A consumer warpgroup of the Hopper backward for dims of 136 to 256, where dK and dV of 64 keys take the registers of
// two warpgroups: each computes P and dS of 32 queries, they exchange them, and each sums up half the columns of dK, dV
// and dQ.
#pragma once

#include <cstdint>

#include "cuda/hopper_backward_scores.cuh"
#include "cuda/hopper_wgmma.cuh"

namespace headway::inline v0::internal::cuda {

template <class Tiles>
struct WideBackwardConsumer : BackwardScores<Tiles, Tiles::kRows / 2> {
  using Scores = BackwardScores<Tiles, Tiles::kRows / 2>;
  using T = typename Tiles::Element;
  using Scores::arrive, Scores::barriers, Scores::base, Scores::dp, Scores::group, Scores::kDim, Scores::kKeys;
  using Scores::kRows, Scores::kSteps, Scores::packed_ds, Scores::packed_p, Scores::s, Scores::thread, Scores::work;
  static constexpr int kChunks = kDim / 128;          // chunks of 64 columns in a warpgroup's half
  static constexpr int kChunkBytes = kRows * 128;     // of Q and dO
  static constexpr int kKeyChunkBytes = kKeys * 128;  // of K and V

  float dq[32];                                           // a part of dQ: (64 queries, 64 columns)
  float dk[kDim / 4];                                     // dK: (64 keys, half the columns)
  float dv[kDim / 4];                                     // dV: likewise
  std::uint32_t other_p[kSteps][4], other_ds[kSteps][4];  // P^T and dS^T of the other warpgroup's queries

  __device__ __forceinline__ WideBackwardConsumer(const BackwardParameters& parameters, const BackwardWork& its_work,
                                                  std::uint32_t base_address, char* base_pointer)
      : Scores(parameters, its_work, base_address, base_pointer) {
#pragma unroll
    for (int i = 0; i < kDim / 4; ++i) dk[i] = dv[i] = 0.f;
  }

  // ---- products: each issues one group ----
  // D = A B^T over kDim columns. A: (64 keys, kDim), B: this warpgroup's 32 rows of (kRows, kDim)
  __device__ __forceinline__ void issue_inner(float (&d)[16], std::uint32_t a_at, std::uint32_t b_at) {
    const std::uint32_t a = operand(base + a_at, 16), b = operand(base + b_at + group * 32 * 128, 16);
#pragma unroll
    for (int k = 0; k < kDim / 16; ++k) {
      const std::uint64_t da = descriptor(a, (k / 4) * kKeyChunkBytes + (k % 4) * 32);
      const std::uint64_t db = descriptor(b, (k / 4) * kChunkBytes + (k % 4) * 32);
      if (k == 0) {
        wgmma_ss_first<T>(d, da, db);
      } else {
        wgmma_ss<T>(d, da, db);
      }
    }
    wgmma_commit();
  }
  // D += A B over the tile's queries, this warpgroup's half of the columns; the steps of its own queries come first.
  // A: (64 keys, kRows) in registers, B: (kRows, kDim)
  __device__ __forceinline__ void issue_outer(float (&d)[kDim / 4], const std::uint32_t (&own)[kSteps][4],
                                              const std::uint32_t (&other)[kSteps][4], std::uint32_t b_at) {
    const std::uint32_t half = base + b_at + group * kChunks * kChunkBytes;
    const std::uint32_t own_b = operand(half + group * kSteps * 2048, kChunkBytes);
    const std::uint32_t other_b = operand(half + (1 - group) * kSteps * 2048, kChunkBytes);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) wgmma_rs<T>(d, own[k], descriptor(own_b, k * 2048));
#pragma unroll
    for (int k = 0; k < kSteps; ++k) wgmma_rs<T>(d, other[k], descriptor(other_b, k * 2048));
    wgmma_commit();
  }
  // S^T = K Q^T
  __device__ __forceinline__ void issue_scores(int stage) {
    issue_inner(s, Tiles::kKeyAt, Tiles::kQueryAt + stage * Tiles::kRowBytes);
  }
  // dP^T = V dO^T
  __device__ __forceinline__ void issue_dp(int stage) {
    issue_inner(dp, Tiles::kValueAt, Tiles::kDOutputAt + stage * Tiles::kRowBytes);
  }
  // dV += P^T dO
  __device__ __forceinline__ void issue_dv(int stage) {
    issue_outer(dv, packed_p, other_p, Tiles::kDOutputAt + stage * Tiles::kRowBytes);
  }
  // dK += dS^T Q
  __device__ __forceinline__ void issue_dk(int stage) {
    issue_outer(dk, packed_ds, other_ds, Tiles::kQueryAt + stage * Tiles::kRowBytes);
  }
  // dQ = dS K over the keys of the block, one chunk of 64 columns
  __device__ __forceinline__ void issue_dq(int buffer, int chunk) {
    const std::uint32_t a = operand(base + Tiles::kScoresAt + buffer * Tiles::kScoreBytes, 16);
    const std::uint32_t b = operand(base + Tiles::kKeyAt + (group * kChunks + chunk) * kKeyChunkBytes, 16);
    issue_outer_product<T, kKeys>(dq, a, b);
  }

  // ---- between them ----
  // Exchanges P^T and dS^T of its own queries for the other warpgroup's. Two buffers of each: after this barrier, the
  // other warpgroup has finished with the buffers of the tile before.
  __device__ __forceinline__ void exchange(int buffer) {
    const int p_at = Tiles::kProbabilitiesAt + buffer * Tiles::kScoreBytes;
    const int ds_at = Tiles::kScoresAt + buffer * Tiles::kScoreBytes;
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      const std::uint32_t *own_p = packed_p[k], *own_ds = packed_ds[k];
      stmatrix(this->score_address(p_at, group * kSteps + k), own_p[0], own_p[1], own_p[2], own_p[3]);
      stmatrix(this->score_address(ds_at, group * kSteps + k), own_ds[0], own_ds[1], own_ds[2], own_ds[3]);
    }
    fence_async();
    named_sync(1, 256);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      ldmatrix(other_p[k], this->score_address(p_at, (1 - group) * kSteps + k));
      ldmatrix(other_ds[k], this->score_address(ds_at, (1 - group) * kSteps + k));
    }
  }

  // ---- the loop ----
  // From P(i) and dP(i): computes dV(i) and dK(i), adds the first chunk of dQ(i) and issues the second. That one has to
  // wait for dV and dK: with all of them under way registers run out, and the compiler serialises every product.
  __device__ __forceinline__ void issue_gradients(int stage) {
    this->gradients(stage);
    exchange(stage);
    wgmma_fence();
    issue_dq(stage, 0);
    issue_dv(stage);
    issue_dk(stage);
    wgmma_wait<2>();
    this->await_turn();
    this->add_columns(dq, 0);
    wgmma_wait<0>();
    wgmma_fence();
    issue_dq(stage, 1);
  }

  // On entry P(i) and dP(i) are there and nothing is under way.
  __device__ __forceinline__ void step(int i) {
    const int stage = i & 1, other = stage ^ 1, other_phase = (i + 1) >> 1 & 1;
    issue_gradients(stage);
    this->release_query(stage);
    arrive(barriers.d_output_empty(stage));
    barrier_wait(barriers.query_full(other), other_phase);
    wgmma_fence();
    issue_scores(other);
    this->look_ahead();
    wgmma_wait<1>();
    this->add_columns(dq, 8);
    this->end_turn();
    barrier_wait(barriers.d_output_full(other), other_phase);
    wgmma_fence();
    issue_dp(other);
    wgmma_wait<1>();
    this->probabilities(other);
    wgmma_wait<0>();
  }

  // All tiles: fills dk and dv.
  __device__ __forceinline__ void accumulate() {
    barrier_wait(barriers.query_full(0), 0);
    wgmma_fence();
    issue_scores(0);
    barrier_wait(barriers.d_output_full(0), 0);
    issue_dp(0);
    this->look_ahead();
    wgmma_wait<1>();
    this->probabilities(0);
    wgmma_wait<0>();
    int i = 0;
    for (; i + 1 < work.tiles; ++i) step(i);
    issue_gradients(i & 1);
    wgmma_wait<0>();
    this->add_columns(dq, 8);
    this->end_turn();
  }

  // dV and dK over V and K, when no warpgroup reads them any more.
  __device__ __forceinline__ void store_results() {
    named_sync(1, 256);
    this->stage_result(dv, Tiles::kDropout ? this->p.dropout.scale : 1.f,
                       Tiles::kValueAt + group * kChunks * kKeyChunkBytes);
    this->stage_result(dk, this->p.scale, Tiles::kKeyAt + group * kChunks * kKeyChunkBytes);
    fence_async();
    named_sync(3 + group, 128);
    this->store_staged(group * kChunks, kChunks);
  }

  __device__ __forceinline__ void run() {
    static_assert(kDim == 256 && kKeys == 64);
    barrier_wait(barriers.key_full(), 0);
    barrier_wait(barriers.value_full(), 0);
    this->clear_unseen();
    if (work.tiles > 0) accumulate();
    store_results();
  }
};

}  // namespace headway::inline v0::internal::cuda

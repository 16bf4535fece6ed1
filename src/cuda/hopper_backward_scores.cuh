// What lies between the products of the Hopper backward: P from S, dS from dP, masks, dropout, and the places of dQ.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/hopper_backward_tiles.cuh"

namespace headway::inline v0::internal::cuda {

// In place of what a kernel does not need.
struct Nothing {};

// A warpgroup's scores are transposed, S^T: (64 keys, kQueries). A thread holds, per 8 queries j, the elements
// 4 j + 2 y + x of key own_key + 8 y and query first_query + 8 j + 2 (lane % 4) + x of the tile.
template <class Tiles, int kQueries>
struct BackwardScores {
  using T = typename Tiles::Element;
  static constexpr int kDim = Tiles::kDim, kRows = Tiles::kRows, kKeys = Tiles::kKeys;
  static constexpr int kElements = kQueries / 2, kSteps = kQueries / 16;
  static constexpr int kTileFloats = kRows * kDim;

  const BackwardParameters& p;
  const BackwardWork& work;
  const BackwardBarriers barriers;
  const std::uint32_t base;  // of the shared memory, and the same as a pointer
  char* const memory;
  const int group, thread, lane, warp;
  const int first_key;    // of the warpgroup, in the block
  const int own_key;      // of the thread, in the sequence
  const int first_query;  // of the warpgroup, in the tile

  float s[kElements];                                       // S^T, then P^T: (64 keys, kQueries)
  float dp[kElements];                                      // dP^T, then dS^T: likewise
  std::uint32_t packed_p[kSteps][4], packed_ds[kSteps][4];  // P^T and dS^T in 16 bits, by steps of 16 queries
  TileCursor next;                                          // the tile of the next P
  int row, head;                                            // of the last P
  bool masked;                                              // whether the last P has elements that are hidden
  std::uint32_t drops;  // those of the next P's elements, then of the last one's, that dropout drops
  float* sums;          // where this thread's part of the next dQ goes
  int sums_left;        // tiles of that query head, this one counted
  int turn;             // how many dQ have gone
  using Bias = std::conditional_t<(Tiles::kBiasStages > 0), CopiedBiasTile<T, kQueries>, BiasTile<T, kQueries>>;
  std::conditional_t<Tiles::kBias, Bias, Nothing> bias;                // of the next P
  std::conditional_t<Tiles::kMask, MaskTile<kQueries>, Nothing> mask;  // likewise
  std::uint32_t cap_slopes[Tiles::kAll ? kElements / 2 : 1];           // float16 pairs: slopes of the softcap

  __device__ __forceinline__ BackwardScores(const BackwardParameters& parameters, const BackwardWork& its_work,
                                            std::uint32_t base_address, char* base_pointer)
      : p(parameters),
        work(its_work),
        barriers{base_address + Tiles::kBarriersAt},
        base(base_address),
        memory(base_pointer),
        group(warp_uniform(static_cast<int>(threadIdx.x) / 128 - 1)),
        thread(threadIdx.x % 128),
        lane(threadIdx.x % 32),
        warp(warp_uniform(static_cast<int>(threadIdx.x) / 32 % 4)),
        first_key(kKeys == 64 ? 0 : group * 64),
        own_key(work.key0 + first_key + warp * 16 + lane / 4),
        first_query(kQueries == kRows ? 0 : group * kQueries),
        next(work),
        sums(p.d_query_sums + tile_index(p, work, next.head, next.tile) * kTileFloats + group * (kTileFloats / 2) +
             thread * 4),
        sums_left(work.end_tile - work.first_tile),
        turn(0) {}

  __device__ __forceinline__ const float* statistics(int stage) const {
    return reinterpret_cast<const float*>(memory + Tiles::kStatisticsAt + stage * Tiles::kStatisticBytes) +
           first_query + 2 * (lane % 4);
  }

  // What the next P needs and does not come from its scores: best done while products are under way.
  __device__ __forceinline__ void look_ahead() {
    const int tile_row = next.tile * kRows + first_query, warp_key = work.key0 + first_key + warp * 16;
    if constexpr (Tiles::kBias && Tiles::kBiasStages == 0) bias.read(p, work, next.head, tile_row, warp_key);
    if constexpr (Tiles::kMask) mask.read(p, work, next.head, tile_row, warp_key);
    if constexpr (Tiles::kDropout) {
      drops = Tiles::kAll && p.dropout.threshold == 0 ? 0 : draw_drops(tile_row, next.head);
      asm volatile("" : "+r"(drops));  // or it is drawn where it is used
    }
  }

  // The same of a bias that is copied, of tile `index`: its first half.
  __device__ __forceinline__ void take_bias(int index) {
    if constexpr (Tiles::kBiasStages > 0) {
      const int slot = 2 * (index % Tiles::kBiasStages) + group;
      barrier_wait(barriers.bias_full(slot), index / Tiles::kBiasStages & 1);
      bias.tile = base + Tiles::kBiasAt + slot * Tiles::kBiasBytes;
      bias.read_half(0, 2 * warp);
    }
  }

  __device__ __forceinline__ void release_bias() const {
    if constexpr (Tiles::kBiasStages > 0) {
      arrive(barriers.bias_empty(static_cast<int>(bias.tile - base - Tiles::kBiasAt) / Tiles::kBiasBytes));
    }
  }

  // P = exp2(S * scale - reference), zero behind the masks.
  __device__ __forceinline__ void probabilities(int stage) {
    row = next.tile * kRows;
    head = next.head;
    next.advance();
    const float* reference = statistics(stage);
#pragma unroll
    for (int j = 0; j < kElements / 4; ++j) {
      const float2 r = *reinterpret_cast<const float2*>(reference + 8 * j);
      if constexpr (Tiles::kAdds) {
        // A large log-sum-exp has no digits for its rest.
        const float2 rest = *reinterpret_cast<const float2*>(reference + 2 * kRows + 8 * j);
        if constexpr (Tiles::kBiasStages > 0) {
          if (j == kElements / 8) bias.read_half(1, 2 * warp);
        }
        add_and_raise(j, r, rest);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          s[4 * j + e] = exp2_approximate(fmaf(s[4 * j + e], p.scale_log2, -(e % 2 ? r.y : r.x)));
        }
      }
      if constexpr (Tiles::kMask) hide_masked(j);
    }
    bool hides = Tiles::kMask || Tiles::kAll;
    if constexpr (Tiles::kBias) {
      hides = bias.hides();
      if (hides) hide_by_bias();
      release_bias();
    }
    masked = work.key0 + kKeys > work.seen_end;
    if constexpr (Tiles::kLimited) {
      const int position = row + work.query_offset;
      masked = masked || work.key0 + kKeys - 1 > position + p.right || work.key0 < position + kRows - 1 - p.left;
    }
    if (masked) hide();
    masked = masked || hides;
  }

  // P = exp2(S * scale + bias - reference - rest) of 8 queries.
  __device__ __forceinline__ void add_and_raise(int j, float2 reference, float2 rest) {
#pragma unroll
    for (int y = 0; y < 2; ++y) {
      float2 added;
      if constexpr (Tiles::kBias) added = bias.pair(j, y);
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const int e = 4 * j + 2 * y + x;
        const float minus = x ? reference.y : reference.x, minus_rest = x ? rest.y : rest.x;
        if constexpr (Tiles::kBias) {
          const float value = x ? added.y : added.x;
          const float score = fmaf(s[e], p.scale_log2, value * kBackwardLog2E);
          s[e] = exp2_approximate(score - minus - minus_rest);
        } else {
          const ScorePlace at = {head, row + first_query + 2 * (lane % 4) + 8 * j + x, own_key + 8 * y};
          const bool inside = at.query < work.query_length && at.key < work.key_length;
          const float value = inside ? added_score(p, work, at) : 0.f;
          const CappedScore capped = cap_score(p, s[e], value);
          s[e] = value == -INFINITY ? 0.f : exp2_approximate(capped.score - minus - minus_rest);
          keep_slope(e, capped.slope);
        }
      }
    }
  }

  // Sets P to zero where the bias hides the key.
  __device__ __forceinline__ void hide_by_bias() {
#pragma unroll
    for (int e = 0; e < kElements; e += 2) {
      if constexpr (Tiles::kBiasStages > 0) {
        if (e % (kElements / 2) == 0) bias.read_half(2 * e / kElements, 2 * warp);
      }
      const float2 added = bias.pair(e / 4, e / 2 % 2);
      if (added.x <= kBackwardHides) s[e] = 0.f;
      if (added.y <= kBackwardHides) s[e + 1] = 0.f;
    }
  }

  // Keeps the slope of the softcap until dS is there.
  __device__ __forceinline__ void keep_slope(int element, float slope) {
    const std::uint32_t bits = __half_as_ushort(__float2half_rn(slope));
    cap_slopes[element / 2] = element % 2 == 0 ? bits : cap_slopes[element / 2] | bits << 16;
  }

  // Sets P of 8 queries to zero where the mask hides the key.
  __device__ __forceinline__ void hide_masked(int j) {
    const std::uint32_t bytes = mask.bytes(j);
#pragma unroll
    for (int y = 0; y < 2; ++y) {
#pragma unroll
      for (int x = 0; x < 2; ++x) {
        const bool is_set = (bytes & (0xFFu << (16 * x + 8 * y))) != 0;
        if (is_set != p.mask.true_keeps) s[4 * j + 2 * y + x] = 0.f;
      }
    }
  }

  // Sets P to zero where the query is out of reach of the key.
  __device__ __forceinline__ void hide() {
    const unsigned reach = static_cast<unsigned>(p.left) + static_cast<unsigned>(p.right);
    const int query = row + first_query + 2 * (lane % 4);
    const int first_distance = own_key - (query + work.query_offset) + p.left;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int y = e / 2 % 2 * 8, x = e / 4 * 8 + e % 2;
      bool seen = own_key + y < work.seen_end;
      if constexpr (Tiles::kLimited) seen = seen && static_cast<unsigned>(first_distance + y - x) <= reach;
      if (!seen) s[e] = 0.f;
    }
  }

  // The bits of the elements that are dropped, by the rule of core/random.h. A call serves two queries and the keys of
  // two neighbouring lanes, each of which makes the call that starts with query x = key % 2 and gives it to the other.
  __device__ __forceinline__ std::uint32_t draw_drops(int tile_row, int its_head) const {
    const int parity = lane / 4 % 2;
    const std::uint32_t halves = parity == 0 ? 0x5410 : 0x3276;  // of (own, other): those of this lane's key
    const std::uint32_t threshold = p.dropout.threshold << 16;
    std::uint32_t bits = 0;
#pragma unroll
    for (int block = 0; block < kSteps; ++block) {
      std::uint32_t own[4] = {static_cast<std::uint32_t>((tile_row / 16 + block) * 8 + 2 * (lane % 4) + parity),
                              static_cast<std::uint32_t>(own_key / 16 * 4 + own_key % 8 / 2),
                              static_cast<std::uint32_t>(its_head), static_cast<std::uint32_t>(work.sequence)};
      philox(own, p.dropout.seed);
#pragma unroll
      for (int word = 0; word < 4; ++word) {  // word = 2 * (second 8 queries) + y
        const std::uint32_t other = __shfl_xor_sync(0xffffffffu, own[word], 4);
        const std::uint32_t draws = __byte_perm(own[word], other, halves);  // of two neighbouring queries
        const int element = 4 * (2 * block + word / 2) + 2 * (word % 2);
        if (draws << 16 < threshold) bits |= 1u << element;
        if (draws < threshold) bits |= 2u << element;
      }
    }
    return bits;
  }

  // dS = P (dP - delta); packs both. With dropout, P V has the factor 0 or dropout.scale, and so has dP; dV gets that
  // scale in the end. kMasked: the tile may have elements that are hidden.
  template <bool kMasked = true>
  __device__ __forceinline__ void gradients(int stage) {
    const float* delta = statistics(stage) + kRows;
#pragma unroll
    for (int j = 0; j < kElements / 4; ++j) {
      const float2 d = *reinterpret_cast<const float2*>(delta + 8 * j);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int i = 4 * j + e;
        if constexpr (Tiles::kDropout) dp[i] = is_dropped(i) ? 0.f : dp[i] * p.dropout.scale;
        dp[i] = s[i] * (dp[i] - (e % 2 ? d.y : d.x));
      }
    }
    if constexpr (kMasked) {
      if (masked) hide_gradients();
    }
    if constexpr (Tiles::kAll) {
      if (p.d_bias.data != nullptr) store_bias_gradient();
    }
#pragma unroll
    for (int i = 0; i < kElements; ++i) {
      if constexpr (Tiles::kAll) {
        const std::uint32_t slopes = cap_slopes[i / 2];
        dp[i] *= __half2float(__ushort_as_half(static_cast<unsigned short>(i % 2 ? slopes >> 16 : slopes)));
      }
      if constexpr (Tiles::kDropout) {
        if (is_dropped(i)) s[i] = 0.f;
      }
    }
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        packed_p[k][j] = pack<T>(s[8 * k + 2 * j], s[8 * k + 2 * j + 1]);
        packed_ds[k][j] = pack<T>(dp[8 * k + 2 * j], dp[8 * k + 2 * j + 1]);
      }
    }
  }

  __device__ __forceinline__ bool is_dropped(int element) const { return (drops >> element & 1) != 0; }

  // Where P is zero dS is too, whatever dP is: hidden values may be NaN.
  __device__ __forceinline__ void hide_gradients() {
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (s[e] == 0.f) dp[e] = 0.f;
    }
  }

  // dS to the plane of its head: eight lanes write 32 bytes of a row.
  __device__ __forceinline__ void store_bias_gradient() const {
    const int query = row + first_query + 2 * (lane % 4);
    const std::int64_t plane = static_cast<std::int64_t>(work.batch) * p.heads + head - p.d_bias.first;
    float* to =
        p.d_bias.data + (plane * p.query_length + work.query_begin + query) * p.key_length + work.key_begin + own_key;
    const int rows_left = work.query_length - query, keys_left = work.key_length - own_key;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      const int y = e / 2 % 2 * 8, x = e / 4 * 8 + e % 2;
      if (x < rows_left && y < keys_left) to[static_cast<std::int64_t>(x) * p.key_length + y] = dp[e];
    }
  }

  // Where a lane's row of stmatrix or ldmatrix lies in a tile (keys, 64 queries) for a step of 16 queries.
  __device__ __forceinline__ std::uint32_t score_address(int tile_at, int step) const {
    const int matrix = lane / 8, row = first_key + warp * 16 + lane % 8 + matrix % 2 * 8;
    return base + tile_at + row * 128 + ((2 * step + matrix / 2 ^ row % 8) << 4);
  }

  // ---- dQ ----
  // Waits until this block may add to the next tile of dQ.
  __device__ __forceinline__ void await_turn() {
    if constexpr (Tiles::kOrdered) barrier_wait(barriers.turn_open(), turn & 1);
  }
  // Adds 2 kCount columns of this warpgroup's half, from group `first_group` of 8 columns on.
  template <int kCount>
  __device__ __forceinline__ void add_columns(const float (&dq)[kCount], int first_group) {
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      add_global(sums + (first_group + j) * 512, dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
    }
  }
  // Ends the turn; the next dQ is of the next tile.
  __device__ __forceinline__ void end_turn() {
    if constexpr (Tiles::kOrdered) arrive(barriers.turn_done());
    ++turn;
    sums -= kTileFloats;
    if (--sums_left == 0) {
      sums_left = work.end_tile - work.first_tile;
      sums += static_cast<std::int64_t>(p.row_tiles + sums_left) * kTileFloats;
    }
  }
  // Gives dQ to the thread that adds it to the sums.
  template <int kCount>
  __device__ __forceinline__ void stage_sums(const float (&dq)[kCount]) {
    const int buffer = turn % Tiles::kSumBuffers, phase = turn / Tiles::kSumBuffers & 1;
    barrier_wait(barriers.sums_empty(buffer), phase ^ 1);
    char* to = memory + Tiles::kSumsAt + buffer * Tiles::kSumBytes + group * (Tiles::kSumBytes / 2) + thread * 16;
#pragma unroll
    for (int j = 0; j < kCount / 4; ++j) {
      *reinterpret_cast<float4*>(to + j * 2048) = make_float4(dq[4 * j], dq[4 * j + 1], dq[4 * j + 2], dq[4 * j + 3]);
    }
    fence_async();
    arrive(barriers.sums_full(buffer));
    ++turn;
  }

  // Q and the statistics of a stage are not needed any more. Every thread signals so for itself, having read the
  // statistics itself.
  __device__ __forceinline__ void release_query(int stage) const { barrier_arrive(barriers.query_empty(stage)); }

  // One arrival of the warp.
  __device__ __forceinline__ void arrive(std::uint32_t barrier) const {
    __syncwarp();
    if (lane == 0) barrier_arrive(barrier);
  }

  // Zeros in place of keys and values that no query sees: 0 * NaN would reach dQ.
  __device__ __forceinline__ void clear_unseen() {
    const int loaded_end = min(work.key0 + kKeys, p.key_length - work.key_begin);  // the tensor's end: zeros follow
    if (work.key0 >= work.seen_begin && loaded_end <= work.seen_end) return;
    for (int i = group * 128 + thread; i < kKeys * (kDim / 8); i += 256) {
      const int row = i / (kDim / 8), chunk = i % (kDim / 8), key = work.key0 + row;
      if (key >= work.seen_begin && key < work.seen_end) continue;
      const int at = (chunk / 8) * kKeys * 128 + row * 128 + (chunk % 8) * 16;
      *reinterpret_cast<uint4*>(memory + Tiles::kKeyAt + at) = make_uint4(0, 0, 0, 0);
      *reinterpret_cast<uint4*>(memory + Tiles::kValueAt + at) = make_uint4(0, 0, 0, 0);
    }
    fence_async();
    named_sync(5, 256);
  }

  // A gradient of this warpgroup's 64 keys, over keys or values in shared memory that are no longer read.
  template <int kCount>
  __device__ __forceinline__ void stage_result(const float (&from)[kCount], float factor, int at) {
    const int matrix = lane / 8, row = first_key + warp * 16 + lane % 8 + matrix % 2 * 8;
#pragma unroll
    for (int c = 0; c < kCount / 8; ++c) {
      const int column = 16 * c + matrix / 2 * 8;
      const float* v = from + 8 * c;
      stmatrix(base + at + (column / 64) * kKeys * 128 + row * 128 + ((column % 64 / 8 ^ row % 8) << 4),
               pack<T>(v[0] * factor, v[1] * factor), pack<T>(v[2] * factor, v[3] * factor),
               pack<T>(v[4] * factor, v[5] * factor), pack<T>(v[6] * factor, v[7] * factor));
    }
  }

  // The staged gradients of 64 keys to global memory, `chunks` times 64 columns from `first_chunk` on.
  __device__ __forceinline__ void store_staged(int first_chunk, int chunks) {
    const int first_row = work.key0 + first_key, tensor_row = work.key_begin + first_row;
    if constexpr (Tiles::kLimited) {
      if (first_row + 64 > work.key_length && work.key_begin + work.key_length < p.key_length) {
        store_staged_rows(p.d_value_rows, Tiles::kValueAt, first_chunk, chunks);
        store_staged_rows(p.d_key_rows, Tiles::kKeyAt, first_chunk, chunks);
        return;
      }
    }
    if (thread != 0) return;
    for (int c = first_chunk; c < first_chunk + chunks; ++c) {
      const std::uint32_t from = base + c * kKeys * 128 + first_key * 128;
      store_columns(&p.d_value, from + Tiles::kValueAt, c * 64, tensor_row, work.kv_head, work.batch);
      store_columns(&p.d_key, from + Tiles::kKeyAt, c * 64, tensor_row, work.kv_head, work.batch);
    }
    tma_commit();
    tma_wait_read();
  }

  // The same without bulk copies, which would write over the keys of the next sequence.
  __device__ __forceinline__ void store_staged_rows(const RowTensor& to, int at, int first_chunk, int chunks) {
    T* rows = static_cast<T*>(to.data) + work.batch * to.stride[0] + work.kv_head * to.stride[1];
    for (int i = thread; i < 64 * chunks * 8; i += 128) {
      const int r = i / (chunks * 8), chunk = first_chunk + i % (chunks * 8) / 8, eighth = i % 8;
      const int key = work.key0 + first_key + r, column = chunk * 64 + eighth * 8;
      if (key >= work.key_length || column >= to.columns) continue;
      const int from = at + chunk * kKeys * 128 + (first_key + r) * 128 + ((eighth ^ r % 8) << 4);
      *reinterpret_cast<uint4*>(rows + (work.key_begin + key) * to.stride[2] + column) =
          *reinterpret_cast<const uint4*>(memory + from);
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

// The float32 backward by warpgroup products in TF32, three for each product as in tf32_mma.cuh, without atomics.
//
// A block owns 128 rows, 64 of each of two warpgroups, and goes through the other side's rows, 32 at a time. It owns
// queries in one kernel and keys in the other:
//
//   owned       streamed      scores                        gradients
//   Q, dO       K, V          S = Q K^T,   dP = dO V^T      dQ += dS K
//   K, V        Q, dO         S^T = K Q^T, dP^T = V dO^T    dK += dS^T Q, dV += P^T dO
//
// Tiles lie in shared memory as panels of 32 columns in the 128-byte swizzle, high and low parts apart. Streamed rows
// wait in registers: the products of scores read them as rows, those of gradients transposed, and each of the two
// copies is written while products of the other kind run.
#include <new>

#include "cuda/float_backward.cuh"
#include "cuda/hopper_float_backward.h"
#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_wgmma.cuh"
#include "cuda/hopper_wgmma_tf32.cuh"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kGroupRows = 64;     // owned by a warpgroup
constexpr int kPanelColumns = 32;  // 128 bytes
constexpr int kStepBytes = 32;     // 8 columns: one step of a product
constexpr int kOwners = 256;       // threads that own rows

// Which side a block owns, and the columns, padded.
template <int kColumns, bool kOwnsKeys>
struct PassShape : FloatShape<kColumns, kOwners / 32, 1> {
  static constexpr bool kKeys = kOwnsKeys;
  static constexpr int kPanels = kColumns / kPanelColumns;
  static constexpr int kGradients = kKeys ? 2 : 1;
};

// The tiles of one block in shared memory.
template <class Shape>
struct alignas(1024) PassTiles {
  float owned[2][2][Shape::kPanels][Shape::kRows * kPanelColumns];  // (tensor, high and low, panel, kRows, 32)
  float streamed[2][Shape::kPanels][2 * kDepth * kPanelColumns];    // (tensor, panel, high and low, kDepth, 32)
  float transposed[Shape::kGradients][2][Shape::kDim * kDepth];     // (tensor, high and low, kDim, kDepth)
  QueryStatistics statistics[2];                                    // (stages)
  alignas(FloatBackwardHead) unsigned char head[sizeof(FloatBackwardHead)];
};

// ---- tiles ----

// Element (row, column) of a panel.
__device__ __forceinline__ int panel_index(int row, int column) {
  return row * kPanelColumns + ((column / 4 ^ row % 8) * 4 + column % 4);
}

// Writes the two parts of four neighbours.
__device__ __forceinline__ void store_split(float* high, float* low, int index, const float4& value) {
  uint4 upper, lower;
  split(value.x, upper.x, lower.x);
  split(value.y, upper.y, lower.y);
  split(value.z, upper.z, lower.z);
  split(value.w, upper.w, lower.w);
  *reinterpret_cast<uint4*>(high + index) = upper;
  *reinterpret_cast<uint4*>(low + index) = lower;
}

// One thread's part, of kCount, of kDepth rows of a tensor: fours of columns of one row. Half warps have 16 rows, which
// leaves no bank conflicts.
template <class Shape, int kCount>
struct RowParts {
  static constexpr int kParts = kDepth * Shape::kDim / 4 / kCount;
  static constexpr int kWidth = kCount / 8;  // columns that the threads cover at once
  float4 at[kParts];

  static __device__ int row() {
    return static_cast<int>(threadIdx.x) / 32 % 2 * 16 + static_cast<int>(threadIdx.x) % 16;
  }
  static __device__ int first_column() {
    return static_cast<int>(threadIdx.x) % kCount / 64 * 8 + static_cast<int>(threadIdx.x) % 32 / 16 * 4;
  }

  // Rows from `first` on; zeros outside.
  __device__ __forceinline__ void load(const FloatRows& rows, int first) {
    const float* source = rows.at(first + row()) + first_column();
    const int columns = first + row() < rows.count ? rows.columns - first_column() : 0;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      at[i] = i * kWidth < columns ? *reinterpret_cast<const float4*>(source + i * kWidth) : float4{};
    }
  }

  // As rows from `first` on of the panels of a tile; high and low as arrays (panel, rows, 32) with `stride` elements.
  __device__ __forceinline__ void store_rows(float* high, float* low, int first, int stride) const {
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const int panel = i * kWidth / kPanelColumns, column = i * kWidth % kPanelColumns + first_column();
      store_split(high + panel * stride, low + panel * stride, panel_index(first + row(), column), at[i]);
    }
  }

  // As columns of tiles (kDim, kDepth), in the order of LeftFragments::take.
  __device__ __forceinline__ void store_transposed(float* high, float* low) const {
    const int position = row() / 8 * 8 + row() % 2 * 4 + row() % 8 / 2;
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const float values[4] = {at[i].x, at[i].y, at[i].z, at[i].w};
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int index = panel_index(i * kWidth + first_column() + c, position);
        std::uint32_t upper, lower;
        split(values[c], upper, lower);
        high[index] = __uint_as_float(upper);
        low[index] = __uint_as_float(lower);
      }
    }
  }
};

// Copies the rows of two tensors from `first` on to the tiles that stay, by their owners.
template <class Shape>
__device__ void store_owned(PassTiles<Shape>& tiles, const FloatRows& one, const FloatRows& other, int first) {
#pragma unroll 1
  for (int r = 0; r < Shape::kRows; r += kDepth) {
    RowParts<Shape, kOwners> parts[2];
    parts[0].load(one, first + r);
    parts[1].load(other, first + r);
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      parts[t].store_rows(tiles.owned[t][0][0], tiles.owned[t][1][0], r, Shape::kRows * kPanelColumns);
    }
  }
}

// ---- products ----

// A warpgroup's scores (64, kDepth), as three sums.
struct ScoreSums {
  float both[kDepth];      // high by high, then high by low
  float rest[kDepth / 2];  // low by high

  // Starts owned (64, kDim) times streamed (kDepth, kDim), transposed. One product has the high part of `owned` by both
  // parts of `streamed`.
  template <class Shape>
  __device__ __forceinline__ void issue(const PassTiles<Shape>& tiles, int tensor) {
    const int group_bytes = static_cast<int>(threadIdx.x) / 128 * kGroupRows * kPanelColumns * 4;
    const std::uint32_t high = operand(shared_address(tiles.owned[tensor][0][0]) + group_bytes, 0);
    const std::uint32_t low = operand(shared_address(tiles.owned[tensor][1][0]) + group_bytes, 0);
    const std::uint32_t rows = operand(shared_address(tiles.streamed[tensor][0]), 0);
#pragma unroll
    for (int s = 0; s < Shape::kPanels * kSteps; ++s) {
      const int left = s / kSteps * Shape::kRows * kPanelColumns * 4 + s % kSteps * kStepBytes;
      const int right = s / kSteps * 2 * kDepth * kPanelColumns * 4 + s % kSteps * kStepBytes;
      wgmma_ss_tf32(both, descriptor(high, left), descriptor(rows, right), s > 0);
      wgmma_ss_tf32(rest, descriptor(low, left), descriptor(rows, right), s > 0);
    }
  }

  __device__ __forceinline__ void finish(float (&scores)[1][kSteps][4]) {
    hold_sums(both);
    hold_sums(rest);
#pragma unroll
    for (int i = 0; i < kDepth / 2; ++i) scores[0][i / 4][i % 4] = both[i] + (both[kDepth / 2 + i] + rest[i]);
  }
};

// One gradient of the block's rows: this warp's 16 in the order of FloatShape::write_rows.
template <class Shape>
using GradientSums = float[1][Shape::kColumnTiles][4];

// What one step adds to a gradient: a warpgroup's (64, kDim).
template <class Shape>
struct GradientStep {
  float part[Shape::kDim / 2];

  // Starts left (64, kDepth) times streamed (kDepth, kDim), the small terms first.
  __device__ __forceinline__ void issue(const PassTiles<Shape>& tiles, int tensor, const LeftFragments<1>& left) {
    const std::uint32_t high = operand(shared_address(tiles.transposed[tensor][0]), 0);
    const std::uint32_t low = operand(shared_address(tiles.transposed[tensor][1]), 0);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) wgmma_rs_tf32(part, left.low[0][s], descriptor(high, s * kStepBytes), s > 0);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) wgmma_rs_tf32(part, left.high[0][s], descriptor(low, s * kStepBytes), true);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) wgmma_rs_tf32(part, left.high[0][s], descriptor(high, s * kStepBytes), true);
  }

  __device__ __forceinline__ void add_to(GradientSums<Shape>& sums) {
    hold_sums(part);
#pragma unroll
    for (int i = 0; i < Shape::kDim / 2; ++i) sums[0][i / 4][i % 4] += part[i];
  }
};

// ---- one head ----

// Adds what the streamed rows [first, end) of one query head give to the gradients of the rows from `owned` on.
// `first_sums`: dQ or dK, `second_sums`: dV, where the block owns keys.
template <class Shape>
__device__ __forceinline__ void add_rows(const FloatBackwardHead& head, PassTiles<Shape>& tiles, int owned, int first,
                                         int end, GradientSums<Shape>& first_sums, GradientSums<Shape>& second_sums) {
  constexpr bool kKeys = Shape::kKeys;
  const FloatRule& rule = head.rule;
  const int warp_row = owned + Shape::warp_row(), group_row = owned + Shape::warp_row() / kGroupRows * kGroupRows;
  const FloatRowStatistics<1> own_statistics(head, kKeys ? 0 : warp_row);
  const Sight own_sight(rule, kKeys ? 0 : warp_row, kKeys ? 0 : warp_row + 16);
  RowParts<Shape, kOwners> parts[2];
  const auto load = [&](int row, int stage) {
    if (row >= end) return;
    parts[0].load(kKeys ? head.queries : head.keys, row);
    parts[1].load(kKeys ? head.d_outputs : head.values, row);
    if (kKeys) tiles.statistics[stage].fill(head, row, static_cast<int>(threadIdx.x));
  };
  const auto store_rows = [&](int row) {
    if (row >= end) return;
#pragma unroll
    for (int t = 0; t < 2; ++t) {
      float* high = tiles.streamed[t][0];
      parts[t].store_rows(high, high + kDepth * kPanelColumns, 0, 2 * kDepth * kPanelColumns);
    }
  };
  const auto store_transposed = [&] {
#pragma unroll
    for (int t = 0; t < Shape::kGradients; ++t) {
      parts[t].store_transposed(tiles.transposed[t][0], tiles.transposed[t][1]);
    }
  };
  const auto is_seen = [&](int row) {
    if constexpr (kKeys) return Sight(rule, row, row + kDepth).sees_some(group_row, group_row + kGroupRows);
    return Sight(rule, group_row, group_row + kGroupRows).sees_some(row, row + kDepth);
  };
  // By a barrier with a number, since the warpgroups come to it from different places.
  const auto publish = [] {
    fence_async();
    named_sync(1, kOwners);
  };

  load(first, 0);
  store_rows(first);
  publish();
  int stage = 0;
  for (int row = first; row < end; row += kDepth, stage ^= 1) {
    const int next = row + kDepth;
    if (!is_seen(row)) {
      store_transposed();
      load(next, stage ^ 1);
      publish();
      store_rows(next);
      publish();
      continue;
    }
    ScoreSums products, d_weights;
    wgmma_fence();
    products.issue(tiles, 0);
    d_weights.issue(tiles, 1);
    wgmma_commit();
    store_transposed();
    load(next, stage ^ 1);
    wgmma_wait<0>();
    float weights[1][kSteps][4], d_scores[1][kSteps][4];
    products.finish(weights);
    d_weights.finish(d_scores);
    publish();  // the transposed rows; nobody reads the others any more
    if constexpr (kKeys) {
      find_key_gradients(rule, tiles.statistics[stage], row, warp_row, weights, d_scores);
    } else {
      find_d_scores(rule, own_sight, own_statistics, warp_row, row, weights, d_scores);
    }
    LeftFragments<1> left, left_weights;
    left.take(d_scores);
    if constexpr (kKeys) left_weights.take(weights);
    GradientStep<Shape> first_step, second_step;
    wgmma_fence();
    first_step.issue(tiles, 0, left);
    if constexpr (kKeys) second_step.issue(tiles, 1, left_weights);
    wgmma_commit();
    store_rows(next);
    wgmma_wait<0>();
    first_step.add_to(first_sums);
    if constexpr (kKeys) second_step.add_to(second_sums);
    publish();  // the next rows; nobody reads the transposed ones any more
  }
}

// ---- kernels ----

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    hopper_float_query_kernel(const __grid_constant__ FloatBackward a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& tiles = *reinterpret_cast<PassTiles<Shape>*>(shared);
  auto& head = *reinterpret_cast<FloatBackwardHead*>(tiles.head);
  const std::int64_t count = a.query_tiles.count * a.call.heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    // From the last to the first: under a causal mask the last have the most to do.
    const TilePlace place = a.query_tiles.at(a.query_tiles.count - 1 - work % a.query_tiles.count);
    const int first_query = static_cast<int>(place.first), query = first_query + Shape::warp_row();
    __syncthreads();  // the head before this one
    if (threadIdx.x == 0) new (&head) FloatBackwardHead(a, place.sequence, work / a.query_tiles.count);
    __syncthreads();
    const KeyRange seen = Sight(head.rule, first_query, first_query + Shape::kRows).some;
    GradientSums<Shape> d_query = {}, unused;
    store_owned(tiles, head.queries, head.d_outputs, first_query);
    add_rows(head, tiles, first_query, seen.first / kDepth * kDepth, seen.end, d_query, unused);
    const float scales[1][2] = {{head.rule.scale, head.rule.scale}};
    const unsigned not_finite = Shape::write_rows(d_query, scales, head.d_queries, query);
    Shape::repair_rows(not_finite, query, [&](int q) { repair_d_query(head, q); });
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1) hopper_float_key_kernel(const __grid_constant__ FloatBackward a) {
  extern __shared__ __align__(1024) unsigned char shared[];
  auto& tiles = *reinterpret_cast<PassTiles<Shape>*>(shared);
  auto& head = *reinterpret_cast<FloatBackwardHead*>(tiles.head);
  const std::int64_t count = a.key_tiles.count * a.call.kv_heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = a.key_tiles.at(work % a.key_tiles.count);
    const int first_key = static_cast<int>(place.first), key = first_key + Shape::warp_row();
    const std::int64_t kv_head = work / a.key_tiles.count, first_head = kv_head * a.call.group;
    GradientSums<Shape> d_key = {}, d_value = {};
    for (std::int64_t h = first_head; h < first_head + a.call.group; ++h) {
      __syncthreads();  // the head before this one
      if (threadIdx.x == 0) new (&head) FloatBackwardHead(a, place.sequence, h);
      __syncthreads();
      if (h == first_head) store_owned(tiles, head.keys, head.values, first_key);
      const QueryRange queries(head.rule, first_key, first_key + Shape::kRows);
      add_rows(head, tiles, first_key, queries.first, queries.end, d_key, d_value);
    }
    const float scales[1][2] = {{head.rule.scale, head.rule.scale}}, ones[1][2] = {{1.f, 1.f}};
    const unsigned not_finite =
        Shape::write_rows(d_key, scales, head.d_keys, key) | Shape::write_rows(d_value, ones, head.d_values, key);
    Shape::repair_rows(not_finite, key, [&](int k) { repair_d_key(a, place.sequence, kv_head, k); });
  }
}

// ---- launches ----

template <int kDim>
void launch(UploadedCall& uploaded, FloatBackward& a) {
  using Queries = PassShape<kDim, false>;
  using Keys = PassShape<kDim, true>;
  a.query_tiles = uploaded.query_tiles(Queries::kRows);
  a.key_tiles = uploaded.key_tiles(Keys::kRows);
  if (const std::int64_t count = a.key_tiles.count * a.call.kv_heads; count > 0) {
    constexpr std::size_t kBytes = sizeof(PassTiles<Keys>);
    allow_shared_memory(hopper_float_key_kernel<Keys>, kBytes);
    hopper_float_key_kernel<Keys><<<grid_for(count, 1), kOwners, kBytes, current_stream()>>>(a);
    check_launch("attention hopper_float_key_kernel");
  }
  if (const std::int64_t count = a.query_tiles.count * a.call.heads; count > 0) {
    constexpr std::size_t kBytes = sizeof(PassTiles<Queries>);
    allow_shared_memory(hopper_float_query_kernel<Queries>, kBytes);
    hopper_float_query_kernel<Queries><<<grid_for(count, 1), kOwners, kBytes, current_stream()>>>(a);
    check_launch("attention hopper_float_query_kernel");
  }
}

}  // namespace

bool hopper_takes_float_backward(const AttentionProblem& problem) {
  constexpr std::int64_t kMost = 64, kLeastLength = 65;
  return device_properties().capability == 90 && problem.head_dim <= kMost && problem.value_dim <= kMost &&
         longest_queries(problem) >= kLeastLength && longest_keys(problem) >= kLeastLength;
}

void hopper_float_backward(const AttentionProblem& problem, UploadedCall& uploaded, FloatBackward& backward) {
  if (problem.head_dim <= 32 && problem.value_dim <= 32) {
    launch<32>(uploaded, backward);
  } else {
    launch<64>(uploaded, backward);
  }
}

}  // namespace headway::inline v0::internal::cuda

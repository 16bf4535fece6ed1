// The float32 backward of short sequences: a block has one head of one sequence, all its keys and all its queries, and
// computes everything from one look at the inputs.
//
//   delta = sum(dO * O) - d_logsumexp
//   for each tile of queries
//     P^T = exp(S^T - logsumexp), dP^T = V dO^T, dS^T = P^T * (dP^T - delta)
//     dV += P^T dO, dK += dS^T Q          (a warp has 16 keys)
//     dQ = dS K                           (a warp has 16 queries, and half of the columns where there are four)
#include <algorithm>
#include <new>

#include "cuda/float_attention.h"
#include "cuda/float_backward.cuh"
#include "cuda/float_short_backward.h"

namespace headway::inline v0::internal::cuda {
namespace {

// Blocks of 2 or 4 warps, for 32 or 64 queries and keys.
template <int kColumns, int kWarpCount>
struct ShortShape : FloatShape<kColumns, kWarpCount, 1> {
  using Base = FloatShape<kColumns, kWarpCount, 1>;
  static constexpr int kQueryTiles = Base::kRows / kDepth;
  static constexpr int kScoreStride = Base::kRows + kPadding;
  static constexpr int kQueryColumns = Base::kColumnTiles * 2 / kWarpCount;      // of dQ, in eights, for a warp
  static constexpr int kBlocks = (kColumns == 32 ? 512 : 256) / Base::kThreads;  // on a multiprocessor
};

// The tiles of one block in shared memory.
template <class Shape>
struct ShortTiles {
  float key[Shape::kOwned];                              // (kRows, kStride)
  float value[Shape::kOwned];                            // likewise
  float query[Shape::kQueryTiles][Shape::kStreamed];     // (tiles, kDepth, kStride)
  float d_output[Shape::kQueryTiles][Shape::kStreamed];  // likewise
  float d_scores[kDepth * Shape::kScoreStride];          // (kDepth queries, keys in the order of LeftFragments::take)
  QueryStatistics statistics[Shape::kQueryTiles];        // (tiles)
  alignas(FloatBackwardHead) unsigned char head[sizeof(FloatBackwardHead)];
};

// sum + a * b, where a is not zero: a row without keys has a constant output of zero, so its gradient is ignored.
__device__ __forceinline__ float add_product(float sum, float a, float b) { return a != 0.f ? fmaf(a, b, sum) : sum; }

// Finds delta of kDepth queries from `query` on, eight threads to a row, and keeps a copy in global memory.
template <class Shape>
__device__ __forceinline__ void find_delta(const FloatBackwardHead& head, QueryStatistics& statistics, int query) {
  const int lane = static_cast<int>(threadIdx.x) % 8;
#pragma unroll
  for (int i = 0; i < kDepth * 8 / Shape::kThreads; ++i) {
    const int r = static_cast<int>(threadIdx.x) / 8 + i * (Shape::kThreads / 8), q = query + r;
    const bool inside = q < head.rule.query_length;
    float sum = 0.f;
#pragma unroll
    for (int c = lane * 4; c < Shape::kDim; c += 32) {
      if (!inside || c >= head.outputs.columns) continue;
      const float4 output = *reinterpret_cast<const float4*>(head.outputs.at(q) + c);
      const float4 d_output = *reinterpret_cast<const float4*>(head.d_outputs.at(q) + c);
      sum = add_product(add_product(sum, output.x, d_output.x), output.y, d_output.y);
      sum = add_product(add_product(sum, output.z, d_output.z), output.w, d_output.w);
    }
#pragma unroll
    for (int offset = 4; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFFu, sum, offset);
    if (lane != 0) continue;
    if (inside && head.d_logsumexp) sum -= head.d_logsumexp[q];
    statistics.delta[r] = inside ? sum : 0.f;
    if (inside) head.delta[q] = sum;
  }
}

// d_scores (kDepth, kRows) = a warp's dS^T, transposed, its 16 keys in the order of LeftFragments::take.
template <class Shape>
__device__ __forceinline__ void store_d_scores(float* target, const float (&d_scores)[1][kSteps][4]) {
  const int position = Shape::warp_row() + fragment_row() % 2 * 4 + fragment_row() / 2;
#pragma unroll
  for (int n = 0; n < kSteps; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = n * 8 + fragment_column() * 2 + i % 2;
      target[query * Shape::kScoreStride + position + i / 2 * 8] = d_scores[0][n][i];
    }
  }
}

// dQ of the tile of queries at `query`, from dS and K in shared memory.
template <class Shape>
__device__ __forceinline__ void write_d_query(const FloatBackwardHead& head, const ShortTiles<Shape>& tiles,
                                              int query) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int row = warp % 2 * 16, column = warp / 2 * Shape::kQueryColumns * 8;
  float sums[1][Shape::kQueryColumns][4] = {};
#pragma unroll
  for (int k = 0; k < Shape::kRows; k += kDepth) {
    LeftFragments<1> left;
    left.load<Shape::kScoreStride>(tiles.d_scores, row, k);
#pragma unroll
    for (int n = 0; n < Shape::kQueryColumns; ++n) {
      RightFragments right;
      right.load<Shape::kStride>(tiles.key + k * Shape::kStride, column + n * 8);
      float part[1][4];
      multiply(part, left, right);
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[0][n][i] += part[0][i];
    }
  }
  using Columns = FloatShape<Shape::kQueryColumns * 8, Shape::kWarps, 1>;
  FloatRows target = head.d_queries;
  target.data += column;
  target.columns -= column;
  const float scales[1][2] = {{head.rule.scale, head.rule.scale}};
  const unsigned not_finite = Columns::write_rows(sums, scales, target, query + row);
  Shape::repair_rows(not_finite, query + row, [&](int q) { repair_d_query(head, q); });
}

// Adds one query head's share to dK and dV, and writes its dQ. The keys are being copied to shared memory.
template <class Shape>
__device__ __forceinline__ void add_head(const FloatBackwardHead& head, ShortTiles<Shape>& tiles,
                                         float (&d_key)[1][Shape::kColumnTiles][4],
                                         float (&d_value)[1][Shape::kColumnTiles][4]) {
  const int tile_count = (head.rule.query_length + kDepth - 1) / kDepth, key = Shape::warp_row();
  for (int t = 0; t < tile_count; ++t) {
    Shape::template copy_rows<kDepth>(tiles.query[t], head.queries, t * kDepth);
    Shape::template copy_rows<kDepth>(tiles.d_output[t], head.d_outputs, t * kDepth);
  }
  close_copies();
  for (int t = 0; t < tile_count; ++t) {
    tiles.statistics[t].fill_row(head, t * kDepth, static_cast<int>(threadIdx.x));
    find_delta<Shape>(head, tiles.statistics[t], t * kDepth);
  }
  wait_for_copies<0>();
  __syncthreads();
  for (int t = 0; t < tile_count; ++t) {
    float weights[1][kSteps][4], d_scores[1][kSteps][4];
    Shape::score(weights, tiles.key, tiles.query[t]);
    Shape::score(d_scores, tiles.value, tiles.d_output[t]);
    find_key_gradients(head.rule, tiles.statistics[t], t * kDepth, key, weights, d_scores);
    if (t > 0) __syncthreads();  // the tile of queries before this one
    store_d_scores<Shape>(tiles.d_scores, d_scores);
    Shape::accumulate(d_value, weights, tiles.d_output[t]);
    Shape::accumulate(d_key, d_scores, tiles.query[t]);
    __syncthreads();
    write_d_query(head, tiles, t * kDepth);
  }
}

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    float_short_kernel(const __grid_constant__ FloatBackward a) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<ShortTiles<Shape>*>(shared);
  auto& head = *reinterpret_cast<FloatBackwardHead*>(tiles.head);
  const int key = Shape::warp_row();
  for (std::int64_t work = blockIdx.x; work < a.call.sequence_count * a.call.kv_heads; work += gridDim.x) {
    const std::int64_t sequence = work / a.call.kv_heads, kv_head = work % a.call.kv_heads;
    float d_key[1][Shape::kColumnTiles][4] = {}, d_value[1][Shape::kColumnTiles][4] = {};
    for (std::int64_t h = kv_head * a.call.group; h < (kv_head + 1) * a.call.group; ++h) {
      __syncthreads();  // the head before this one
      if (threadIdx.x == 0) new (&head) FloatBackwardHead(a, sequence, h);
      __syncthreads();
      if (h == kv_head * a.call.group) {
        Shape::template copy_rows<Shape::kRows>(tiles.key, head.keys, 0);
        Shape::template copy_rows<Shape::kRows>(tiles.value, head.values, 0);
      }
      add_head(head, tiles, d_key, d_value);
    }
    const float scales[1][2] = {{head.rule.scale, head.rule.scale}}, ones[1][2] = {{1.f, 1.f}};
    const unsigned not_finite =
        Shape::write_rows(d_key, scales, head.d_keys, key) | Shape::write_rows(d_value, ones, head.d_values, key);
    Shape::repair_rows(not_finite, key, [&](int k) { repair_d_key(a, sequence, kv_head, k); });
  }
}

template <class Shape>
void launch(const FloatBackward& a) {
  launch_blocks(float_short_kernel<Shape>,
                {"attention float_short_kernel", a.call.sequence_count * a.call.kv_heads, Shape::kThreads,
                 sizeof(ShortTiles<Shape>)},
                a);
}

}  // namespace

bool is_short_for_float_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs) {
  return std::max(problem.head_dim, problem.value_dim) <= 64 && longest_side(problem) <= 64 &&
         has_vectors(inputs.output);
}

void float_short_backward(const AttentionProblem& problem, const FloatBackward& backward) {
  const bool is_narrow = std::max(problem.head_dim, problem.value_dim) <= 32, is_shorter = longest_side(problem) <= 32;
  if (is_narrow && is_shorter) {
    launch<ShortShape<32, 2>>(backward);
  } else if (is_narrow) {
    launch<ShortShape<32, 4>>(backward);
  } else if (is_shorter) {
    launch<ShortShape<64, 2>>(backward);
  } else {
    launch<ShortShape<64, 4>>(backward);
  }
}

}  // namespace headway::inline v0::internal::cuda

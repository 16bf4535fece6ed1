// The forward in float32 on tensor cores: a warp has 16 or 32 queries of one head, and the block goes through the keys
// that they see, 32 at a time, the next ones being copied meanwhile.
//
//   for each tile of keys
//     S = Q K^T
//     P = exp(S - m)      (m: the largest score so far)
//     O = O * exp(old m - m) + P V
#include <new>

#include "cuda/float_attention.h"
#include "cuda/float_forward.cuh"
#include "cuda/hopper_float_forward.h"

namespace headway::inline v0::internal::cuda {
namespace {

// The tiles of one block in shared memory.
template <typename Shape>
struct ForwardTiles {
  float query[Shape::kOwned];        // (kRows, kStride)
  float key[2][Shape::kStreamed];    // (stages, kDepth, kStride)
  float value[2][Shape::kStreamed];  // likewise
  alignas(ForwardHead) unsigned char head[sizeof(ForwardHead)];
};

// The scores of a warp's queries from `query` on and the tile of keys at `key`: scaled, -infinity where not seen.
template <int kTiles>
__device__ void mask_scores(const FloatRule& rule, const Sight& sight, int query, int key,
                            float (&scores)[kTiles][kSteps][4]) {
  const bool all = sight.sees_all(key, key + kDepth);
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      KeyRange range;
      if (!all) range = rule.seen_keys(query + m * 16 + h * 8 + fragment_row());
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float& score = scores[m][n][2 * h + i];
          score *= rule.scale;
          if (!all && !range.has(key + n * 8 + fragment_column() * 2 + i)) score = kMasked<float>;
        }
      }
    }
  }
}

// Sets the weights to 0 that dropout drops; the others are scaled at the end, all at once.
template <int kTiles>
__device__ void drop_weights(const FloatRule& rule, int query, int key, float (&weights)[kTiles][kSteps][4]) {
  if (rule.threshold == 0) return;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int n = 0; n < kSteps; n += 2) {
      const auto words = rule.draw_words(query + m * 16 + fragment_row(), key + n * 8 + fragment_column() * 2);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const std::size_t word = static_cast<std::size_t>(i % 4 / 2 * 2 + i / 4);
        if (!rule.keeps(words[word], i % 2 != 0)) weights[m][n + i / 4][i % 4] = 0.f;
      }
    }
  }
}

template <typename Shape>
__device__ void forward_tile(const ForwardHead& head, ForwardTiles<Shape>& tiles, int first_query) {
  constexpr int kTiles = Shape::kTiles;
  const FloatRule& rule = head.rule;
  const KeyRange seen = Sight(rule, first_query, first_query + Shape::kRows).some;
  const int query = first_query + Shape::warp_row();
  const Sight sight(rule, query, query + Shape::kWarpRows);
  const auto copy_keys = [&](int key, int stage) {
    if (key < seen.end) {
      Shape::template copy_rows<kDepth>(tiles.key[stage], head.keys, key);
      Shape::template copy_rows<kDepth>(tiles.value[stage], head.values, key);
    }
    close_copies();
  };

  FloatSoftmax<kTiles> softmax;
  float output[kTiles][Shape::kColumnTiles][4] = {};
  Shape::template copy_rows<Shape::kRows>(tiles.query, head.queries, first_query);
  const int first_key = seen.first / kDepth * kDepth;
  copy_keys(first_key, 0);
  int stage = 0;
  for (int key = first_key; key < seen.end; key += kDepth, stage ^= 1) {
    copy_keys(key + kDepth, stage ^ 1);
    wait_for_copies<1>();
    __syncthreads();
    if (sight.sees_some(key, key + kDepth)) {
      float scores[kTiles][kSteps][4], factors[kTiles][2];
      Shape::score(scores, tiles.query, tiles.key[stage]);
      mask_scores(rule, sight, query, key, scores);
      softmax.add(scores, factors);
      drop_weights(rule, query, key, scores);
      Shape::accumulate(output, factors, scores, tiles.value[stage]);
    }
    __syncthreads();
  }
  wait_for_copies<0>();

  float factors[kTiles][2];
  unsigned not_finite = 0;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      factors[m][h] = softmax.finish(m, h, head.sink) * rule.keep_scale;
      const int row = query + m * 16 + h * 8 + fragment_row();
      if (row >= head.output.count) continue;
      const float logsumexp = softmax.logsumexp(m, h);
      if (fragment_column() == 0) head.logsumexp[row] = logsumexp;
      if (isnan(logsumexp)) not_finite |= 1u << (2 * m + h);
    }
  }
  not_finite |= Shape::write_rows(output, factors, head.output, query);
  Shape::repair_rows(not_finite, query, [&](int q) { repair_output(head, q); });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    float_forward_kernel(const __grid_constant__ FloatForward a) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<ForwardTiles<Shape>*>(shared);
  for_each_query_tile<ForwardHead>(
      a, a.tiles, tiles.head, [&](const ForwardHead& head, int query) { forward_tile<Shape>(head, tiles, query); });
}

template <typename Shape>
void launch_forward(UploadedCall& uploaded, FloatForward& a) {
  a.tiles = uploaded.query_tiles(Shape::kRows);
  launch_blocks(
      float_forward_kernel<Shape>,
      {"attention float_forward_kernel", a.tiles.count * a.call.heads, Shape::kThreads, sizeof(ForwardTiles<Shape>)},
      a);
}

}  // namespace

bool float_attention(const AttentionProblem& problem, AttentionResult& result) {
  if (!is_for_tensor_cores(problem) || !has_vectors(result.output)) return false;
  const auto run_forward = [&](const auto& launch) {
    UploadedCall uploaded(problem);
    FloatForward a;
    a.call = uploaded.call();
    a.output = head_rows(result.output);
    a.logsumexp = static_cast<float*>(result.logsumexp.raw_data());
    launch(uploaded, a);
  };
  if (is_for_halves(problem)) {
    run_forward([&](UploadedCall& uploaded, FloatForward& a) { hopper_float_forward(problem, uploaded, a); });
    return true;
  }
  bool is_taken = true;
  dispatch_columns(problem, [&]<int kDim>() {
    const auto launch = [&]<typename Shape>() { run_forward(launch_forward<Shape>); };
    constexpr bool kNarrow = kDim <= 64;
    is_taken = dispatch_rows < kDim, kNarrow ? 2 : 4, kNarrow ? 2 : 1,
    ForwardTiles > (problem, longest_queries(problem), problem.heads, launch);
  });
  return is_taken;
}

}  // namespace headway::inline v0::internal::cuda

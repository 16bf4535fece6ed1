// The backward in float32 on tensor cores, without atomics: every gradient is the sum of one warp.
//
//   P = exp(S - logsumexp), dP = dO V^T, dS = P * (dP - delta)
//   a block per tile of queries and head, over the keys:           dQ = dS K
//   a block per tile of keys and key/value head, over the queries: dV = P^T dO, dK = dS^T Q
#include <new>

#include "cuda/float_attention.h"
#include "cuda/float_backward.cuh"
#include "cuda/float_short_backward.h"
#include "cuda/hopper_float_backward.h"
#include "cuda/portable_attention.h"

namespace headway::inline v0::internal::cuda {
namespace {

// ---- dQ ----

// The tiles of one block in shared memory.
template <typename Shape>
struct QueryTiles {
  float query[Shape::kOwned];        // (kRows, kStride)
  float d_output[Shape::kOwned];     // likewise
  float key[2][Shape::kStreamed];    // (stages, kDepth, kStride)
  float value[2][Shape::kStreamed];  // likewise
  alignas(FloatBackwardHead) unsigned char head[sizeof(FloatBackwardHead)];
};

template <typename Shape>
__device__ void query_tile(const FloatBackwardHead& head, QueryTiles<Shape>& tiles, int first_query) {
  constexpr int kTiles = Shape::kTiles;
  const FloatRule& rule = head.rule;
  const KeyRange seen = Sight(rule, first_query, first_query + Shape::kRows).some;
  const int query = first_query + Shape::warp_row();
  const Sight sight(rule, query, query + Shape::kWarpRows);
  const FloatRowStatistics<kTiles> rows(head, query);
  const auto copy_keys = [&](int key, int stage) {
    if (key < seen.end) {
      Shape::template copy_rows<kDepth>(tiles.key[stage], head.keys, key);
      Shape::template copy_rows<kDepth>(tiles.value[stage], head.values, key);
    }
    close_copies();
  };

  float d_query[kTiles][Shape::kColumnTiles][4] = {};
  Shape::template copy_rows<Shape::kRows>(tiles.query, head.queries, first_query);
  Shape::template copy_rows<Shape::kRows>(tiles.d_output, head.d_outputs, first_query);
  const int first_key = seen.first / kDepth * kDepth;
  copy_keys(first_key, 0);
  int stage = 0;
  for (int key = first_key; key < seen.end; key += kDepth, stage ^= 1) {
    copy_keys(key + kDepth, stage ^ 1);
    wait_for_copies<1>();
    __syncthreads();
    if (sight.sees_some(key, key + kDepth)) {
      float products[kTiles][kSteps][4], d_scores[kTiles][kSteps][4];
      Shape::score(products, tiles.query, tiles.key[stage]);
      Shape::score(d_scores, tiles.d_output, tiles.value[stage]);
      find_d_scores(rule, sight, rows, query, key, products, d_scores);
      Shape::accumulate(d_query, d_scores, tiles.key[stage]);
    }
    __syncthreads();
  }
  wait_for_copies<0>();

  float scales[kTiles][2];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) scales[m][0] = scales[m][1] = rule.scale;
  const unsigned not_finite = Shape::write_rows(d_query, scales, head.d_queries, query);
  Shape::repair_rows(not_finite, query, [&](int q) { repair_d_query(head, q); });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    float_query_kernel(const __grid_constant__ FloatBackward a) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<QueryTiles<Shape>*>(shared);
  for_each_query_tile<FloatBackwardHead>(
      a, a.query_tiles, tiles.head,
      [&](const FloatBackwardHead& head, int query) { query_tile<Shape>(head, tiles, query); });
}

// ---- dK and dV ----

// The tiles of one block in shared memory.
template <typename Shape>
struct KeyTiles {
  float key[Shape::kOwned];             // (kRows, kStride)
  float value[Shape::kOwned];           // likewise
  float query[2][Shape::kStreamed];     // (stages, kDepth, kStride)
  float d_output[2][Shape::kStreamed];  // likewise
  QueryStatistics statistics[2];        // (stages)
  alignas(FloatBackwardHead) unsigned char head[sizeof(FloatBackwardHead)];
};

// Starts the copy of a tile of queries, and reads what is known of them.
template <typename Shape>
__device__ void copy_queries(const FloatBackwardHead& head, KeyTiles<Shape>& tiles, int query, int stage) {
  Shape::template copy_rows<kDepth>(tiles.query[stage], head.queries, query);
  Shape::template copy_rows<kDepth>(tiles.d_output[stage], head.d_outputs, query);
  tiles.statistics[stage].fill(head, query, static_cast<int>(threadIdx.x));
}

// Adds one query head's share to the gradients of a tile of keys, which are in shared memory.
template <typename Shape, int kTiles = Shape::kTiles>
__device__ void add_head(const FloatBackwardHead& head, KeyTiles<Shape>& tiles, int first_key,
                         float (&d_key)[kTiles][Shape::kColumnTiles][4],
                         float (&d_value)[kTiles][Shape::kColumnTiles][4]) {
  const QueryRange queries(head.rule, first_key, first_key + Shape::kRows);
  const int key = first_key + Shape::warp_row();
  const auto copy_step = [&](int query, int stage) {
    if (query < queries.end) copy_queries<Shape>(head, tiles, query, stage);
    close_copies();
  };
  copy_step(queries.first, 0);
  int stage = 0;
  for (int query = queries.first; query < queries.end; query += kDepth, stage ^= 1) {
    copy_step(query + kDepth, stage ^ 1);
    wait_for_copies<1>();
    __syncthreads();
    if (Sight(head.rule, query, query + kDepth).sees_some(key, key + Shape::kWarpRows)) {
      float weights[kTiles][kSteps][4], d_scores[kTiles][kSteps][4];
      Shape::score(weights, tiles.key, tiles.query[stage]);
      Shape::score(d_scores, tiles.value, tiles.d_output[stage]);
      find_key_gradients(head.rule, tiles.statistics[stage], query, key, weights, d_scores);
      Shape::accumulate(d_value, weights, tiles.d_output[stage]);
      Shape::accumulate(d_key, d_scores, tiles.query[stage]);
    }
    __syncthreads();
  }
}

template <typename Shape>
__device__ void key_tile(const FloatBackward& a, KeyTiles<Shape>& tiles, std::int64_t sequence, std::int64_t kv_head,
                         int first_key) {
  constexpr int kTiles = Shape::kTiles;
  const std::int64_t first_head = kv_head * a.call.group;
  auto& head = *reinterpret_cast<FloatBackwardHead*>(tiles.head);
  float d_key[kTiles][Shape::kColumnTiles][4] = {}, d_value[kTiles][Shape::kColumnTiles][4] = {};
  for (std::int64_t h = first_head; h < first_head + a.call.group; ++h) {
    __syncthreads();  // the head before this one
    if (threadIdx.x == 0) new (&head) FloatBackwardHead(a, sequence, h);
    __syncthreads();
    if (h == first_head) {
      Shape::template copy_rows<Shape::kRows>(tiles.key, head.keys, first_key);
      Shape::template copy_rows<Shape::kRows>(tiles.value, head.values, first_key);
    }
    add_head<Shape>(head, tiles, first_key, d_key, d_value);
  }
  wait_for_copies<0>();

  float scales[kTiles][2], ones[kTiles][2];
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    scales[m][0] = scales[m][1] = head.rule.scale;
    ones[m][0] = ones[m][1] = 1.f;
  }
  const int key = first_key + Shape::warp_row();
  const unsigned not_finite =
      Shape::write_rows(d_key, scales, head.d_keys, key) | Shape::write_rows(d_value, ones, head.d_values, key);
  Shape::repair_rows(not_finite, key, [&](int k) { repair_d_key(a, sequence, kv_head, k); });
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    float_key_kernel(const __grid_constant__ FloatBackward a) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto& tiles = *reinterpret_cast<KeyTiles<Shape>*>(shared);
  const std::int64_t count = a.key_tiles.count * a.call.kv_heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = a.key_tiles.at(work % a.key_tiles.count);
    key_tile<Shape>(a, tiles, place.sequence, work / a.key_tiles.count, static_cast<int>(place.first));
    __syncthreads();
  }
}

// ---- launches ----

template <typename Shape>
void launch_queries(UploadedCall& uploaded, FloatBackward& a) {
  a.query_tiles = uploaded.query_tiles(Shape::kRows);
  launch_blocks(
      float_query_kernel<Shape>,
      {"attention float_query_kernel", a.query_tiles.count * a.call.heads, Shape::kThreads, sizeof(QueryTiles<Shape>)},
      a);
}

template <typename Shape>
void launch_keys(UploadedCall& uploaded, FloatBackward& a) {
  a.key_tiles = uploaded.key_tiles(Shape::kRows);
  launch_blocks(
      float_key_kernel<Shape>,
      {"attention float_key_kernel", a.key_tiles.count * a.call.kv_heads, Shape::kThreads, sizeof(KeyTiles<Shape>)}, a);
}

bool takes(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
           const AttentionGradients& gradients) {
  if (!is_for_tensor_cores(problem) || !inputs.d_output.defined() || inputs.d_weights.defined()) return false;
  return has_vectors(inputs.d_output) && has_vectors(gradients.query) && has_vectors(gradients.key) &&
         has_vectors(gradients.value);
}

// Calls launch(uploaded, arguments), which fills dQ, dK and dV; what comes before and after is done here. Where it
// `finds_deltas`, it fills these too.
template <typename Launch>
void run_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                  const AttentionGradients& gradients, bool finds_deltas, const Launch& launch) {
  UploadedCall uploaded(problem);
  const DeviceBuffer delta(row_array_bytes(problem));
  FloatBackward a;
  a.call = uploaded.call();
  a.output = head_rows(inputs.output);
  a.d_output = head_rows(inputs.d_output);
  a.logsumexp = static_cast<const float*>(inputs.logsumexp.raw_data());
  if (inputs.d_logsumexp.defined()) a.d_logsumexp = static_cast<const float*>(inputs.d_logsumexp.raw_data());
  a.delta = delta.as<float>();
  a.d_query = head_rows(gradients.query);
  a.d_key = head_rows(gradients.key);
  a.d_value = head_rows(gradients.value);
  if (!finds_deltas) find_deltas(a.call, inputs, DType::float32, a.delta);
  launch(uploaded, a);
  if (!gradients.sinks.defined()) return;
  const DeviceBuffer reference(row_array_bytes(problem)), rest(row_array_bytes(problem));
  const RowReferences references = {.reference = reference.as<void>(), .rest = rest.as<void>()};
  find_references(uploaded, inputs.logsumexp, DType::float32, references);
  sum_sinks(a.call, references, a.delta, DType::float32, gradients.sinks);
}

}  // namespace

bool float_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                              AttentionGradients& gradients) {
  if (!takes(problem, inputs, gradients)) return false;
  if (is_short_for_float_backward(problem, inputs)) {
    run_backward(problem, inputs, gradients, true,
                 [&](UploadedCall&, FloatBackward& a) { float_short_backward(problem, a); });
    return true;
  }
  if (is_for_halves(problem)) {
    run_backward(problem, inputs, gradients, false,
                 [&](UploadedCall& uploaded, FloatBackward& a) { hopper_float_backward(problem, uploaded, a); });
    return true;
  }
  bool is_taken = true;
  dispatch_columns(problem, [&]<int kDim>() {
    // Where one kernel's tiles fit, so do the other's.
    static_assert(sizeof(QueryTiles<FloatShape<kDim, 4, 1>>) <= sizeof(KeyTiles<FloatShape<kDim, 4, 1>>));
    is_taken =
        dispatch_rows<kDim, 4, 1, KeyTiles>(problem, longest_keys(problem), problem.kv_heads, [&]<typename Shape>() {
          run_backward(problem, inputs, gradients, false, [&](UploadedCall& uploaded, FloatBackward& a) {
            launch_keys<Shape>(uploaded, a);
            dispatch_rows<kDim, 4, 1, QueryTiles>(
                problem, longest_queries(problem), problem.heads,
                [&]<typename QueryShape>() { launch_queries<QueryShape>(uploaded, a); });
          });
        });
  });
  return is_taken;
}

}  // namespace headway::inline v0::internal::cuda

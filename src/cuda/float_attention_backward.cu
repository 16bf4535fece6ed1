// The backward in float32 on tensor cores, without atomics: every gradient is the sum of one warp.
//
//   P = exp(S - logsumexp), dP = dO V^T, dS = P * (dP - delta)
//   a block per tile of queries and head, over the keys:           dQ = dS K
//   a block per tile of keys and key/value head, over the queries: dV = P^T dO, dK = dS^T Q
#include <new>

#include "cuda/float_attention.h"
#include "cuda/float_score.cuh"
#include "cuda/portable_attention.h"

namespace headway::inline v0::internal::cuda {
namespace {

struct FloatBackward {
  AttentionCall call;
  HeadRows d_output;                 // (batch, heads, query_length, value_dim)
  const float* logsumexp = nullptr;  // (batch, heads, query_length)
  const float* delta = nullptr;      // likewise: sum(dO * O) - d_logsumexp
  HeadRows d_query;                  // (batch, heads, query_length, head_dim)
  HeadRows d_key;                    // (batch, kv_heads, key_length, head_dim)
  HeadRows d_value;                  // (batch, kv_heads, key_length, value_dim)
  TileTable query_tiles;
  TileTable key_tiles;
};

// What one query head of one sequence reads and writes.
struct BackwardHead {
  FloatRule rule;
  FloatRows queries, d_outputs;    // (query_length, head_dim), (query_length, value_dim)
  FloatRows keys, values;          // (key_count, head_dim), (key_count, value_dim)
  FloatRows d_queries;             // (query_length, head_dim)
  FloatRows d_keys, d_values;      // (key_length, head_dim), (key_length, value_dim)
  const float *logsumexp, *delta;  // (query_length)

  __device__ BackwardHead(const FloatBackward& a, std::int64_t index, std::int64_t head) : rule(a.call, index, head) {
    const AttentionCall& call = a.call;
    const Sequence s = call.sequence_at(index);
    const std::int64_t kv_head = head / call.group;
    queries = float_rows(call.query, s.batch, head, s.query_begin, s.query_length, call.head_dim);
    d_outputs = float_rows(a.d_output, s.batch, head, s.query_begin, s.query_length, call.value_dim);
    keys = float_rows(call.key, s.batch, kv_head, s.key_begin, s.key_count, call.head_dim);
    values = float_rows(call.value, s.batch, kv_head, s.key_begin, s.key_count, call.value_dim);
    d_queries = float_rows(a.d_query, s.batch, head, s.query_begin, s.query_length, call.head_dim);
    d_keys = float_rows(a.d_key, s.batch, kv_head, s.key_begin, s.key_length, call.head_dim);
    d_values = float_rows(a.d_value, s.batch, kv_head, s.key_begin, s.key_length, call.value_dim);
    logsumexp = a.logsumexp + call.first_row(s, head);
    delta = a.delta + call.first_row(s, head);
  }

  // Element q of the log-sum-exp or delta; 0 past the last.
  __device__ float row_value(const float* array, int q) const { return q < rule.query_length ? array[q] : 0.f; }
};

// A weight with its dropout, and the gradient of its raw score without the scale.
struct ScoreGradient {
  float weight, d_score;
};

// What becomes of a dot product and its dP. Behind a mask dP may be NaN; a NaN that is seen must show.
__device__ ScoreGradient score_gradient(const FloatRule& rule, float product, float d_weight, float logsumexp,
                                        float delta, bool seen, bool kept) {
  const float power = power_of_two(fmaf(product, rule.scale, -logsumexp) * kLog2E);
  const float p = seen ? power : 0.f, d_kept = kept ? d_weight * rule.keep_scale : 0.f;
  const float d_score = p * (d_kept - delta);
  return {kept ? p * rule.keep_scale : 0.f, p > 0.f ? d_score : p};
}

// ---- rows that NaN or infinity has spoilt ----

// The gradient of one score by a whole warp. The query sees the key.
__device__ ScoreGradient pair_gradient(const BackwardHead& head, int q, int k) {
  const float product = row_product(head.queries.at(q), head.keys.at(k), head.keys.columns);
  const float d_weight = row_product(head.d_outputs.at(q), head.values.at(k), head.values.columns);
  const bool seen = head.logsumexp[q] != kMasked<float>;
  return score_gradient(head.rule, product, d_weight, head.logsumexp[q], head.delta[q], seen,
                        head.rule.keeps_weight(q, k));
}

// dQ of one row by one warp, key by key.
__device__ __noinline__ void repair_d_query(const BackwardHead& head, int q) {
  const KeyRange seen = head.rule.seen_keys(q);
  WarpRow d_query;
  for (int k = seen.first; k < seen.end; ++k) {
    d_query.add(pair_gradient(head, q, k).d_score, head.keys.at(k), head.keys.columns);
  }
  d_query.write(head.rule.scale, head.d_queries.at(q), head.queries.columns);
}

// dK and dV of one row by one warp, query by query.
__device__ __noinline__ void repair_d_key(const FloatBackward& a, std::int64_t sequence, std::int64_t kv_head, int k) {
  WarpRow d_key, d_value;
  for (std::int64_t h = kv_head * a.call.group; h < (kv_head + 1) * a.call.group; ++h) {
    const BackwardHead head(a, sequence, h);
    for (int q = 0; q < head.queries.count; ++q) {
      if (!head.rule.seen_keys(q).has(k)) continue;
      const ScoreGradient gradient = pair_gradient(head, q, k);
      d_key.add(gradient.d_score, head.queries.at(q), head.queries.columns);
      d_value.add(gradient.weight, head.d_outputs.at(q), head.d_outputs.columns);
    }
  }
  const BackwardHead head(a, sequence, kv_head * a.call.group);
  d_key.write(head.rule.scale, head.d_keys.at(k), head.keys.columns);
  d_value.write(1.f, head.d_values.at(k), head.values.columns);
}

// ---- dQ ----

// The tiles of one block in shared memory.
template <typename Shape>
struct QueryTiles {
  float query[Shape::kOwned];        // (kRows, kStride)
  float d_output[Shape::kOwned];     // likewise
  float key[2][Shape::kStreamed];    // (stages, kDepth, kStride)
  float value[2][Shape::kStreamed];  // likewise
  alignas(BackwardHead) unsigned char head[sizeof(BackwardHead)];
};

// What is known of this thread's rows r and r + 8 of each tile of queries.
template <int kTiles>
struct RowStatistics {
  float logsumexp[kTiles][2], delta[kTiles][2];

  __device__ RowStatistics(const BackwardHead& head, int query) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        logsumexp[m][h] = head.row_value(head.logsumexp, query + m * 16 + h * 8 + fragment_row());
        delta[m][h] = head.row_value(head.delta, query + m * 16 + h * 8 + fragment_row());
      }
    }
  }
};

// dP becomes dS, for a warp's queries from `query` on and the tile of keys at `key`.
template <int kTiles>
__device__ void find_d_scores(const FloatRule& rule, const Sight& sight, const RowStatistics<kTiles>& rows, int query,
                              int key, const float (&products)[kTiles][kSteps][4],
                              float (&d_scores)[kTiles][kSteps][4]) {
  const bool all = sight.sees_all(key, key + kDepth), drops = rule.threshold != 0;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    KeyRange ranges[2];
    if (!all) ranges[0] = rule.seen_keys(query + m * 16 + fragment_row());
    if (!all) ranges[1] = rule.seen_keys(query + m * 16 + fragment_row() + 8);
#pragma unroll
    for (int n = 0; n < kSteps; n += 2) {
      std::array<std::uint32_t, 4> words = {};
      if (drops) words = rule.draw_words(query + m * 16 + fragment_row(), key + n * 8 + fragment_column() * 2);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int h = i % 4 / 2, column = key + (n + i / 4) * 8 + fragment_column() * 2 + i % 2;
        const bool seen = all | ranges[h].has(column);
        const bool kept = rule.keeps(words[static_cast<std::size_t>(2 * h + i / 4)], i % 2 != 0);
        float& d_score = d_scores[m][n + i / 4][i % 4];
        const float product = products[m][n + i / 4][i % 4];
        d_score = score_gradient(rule, product, d_score, rows.logsumexp[m][h], rows.delta[m][h], seen, kept).d_score;
      }
    }
  }
}

template <typename Shape>
__device__ void query_tile(const BackwardHead& head, QueryTiles<Shape>& tiles, int first_query) {
  constexpr int kTiles = Shape::kTiles;
  const FloatRule& rule = head.rule;
  const KeyRange seen = Sight(rule, first_query, first_query + Shape::kRows).some;
  const int query = first_query + Shape::warp_row();
  const Sight sight(rule, query, query + Shape::kWarpRows);
  const RowStatistics<kTiles> rows(head, query);
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
  const std::int64_t count = a.query_tiles.count * a.call.heads;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    // From the last to the first: under a causal mask the last have the most to do.
    const TilePlace place = a.query_tiles.at(a.query_tiles.count - 1 - work % a.query_tiles.count);
    auto* head = reinterpret_cast<BackwardHead*>(tiles.head);
    if (threadIdx.x == 0) new (head) BackwardHead(a, place.sequence, work / a.query_tiles.count);
    __syncthreads();
    query_tile<Shape>(*head, tiles, static_cast<int>(place.first));
    __syncthreads();
  }
}

// ---- dK and dV ----

// The tiles of one block in shared memory.
template <typename Shape>
struct KeyTiles {
  float key[Shape::kOwned];             // (kRows, kStride)
  float value[Shape::kOwned];           // likewise
  float query[2][Shape::kStreamed];     // (stages, kDepth, kStride)
  float d_output[2][Shape::kStreamed];  // likewise
  float logsumexp[2][kDepth];           // (stages, kDepth)
  float delta[2][kDepth];               // likewise
  int first_key[2][kDepth];             // likewise: what they see
  int end_key[2][kDepth];               // likewise
  alignas(BackwardHead) unsigned char head[sizeof(BackwardHead)];
};

// The queries [first, end) that see any of the keys [first_key, end_key); first is a multiple of kDepth.
struct QueryRange {
  int first = 0, end = 0;

  __device__ QueryRange(const FloatRule& rule, int first_key, int end_key) {
    end_key = min(end_key, rule.key_count);
    const int begin = max(0, first_key - rule.high);
    if (first_key >= end_key || begin >= min(rule.query_length, end_key - rule.low)) return;
    first = begin / kDepth * kDepth;
    end = min(rule.query_length, end_key - rule.low);
  }
};

// Starts the copy of a tile of queries, and reads what is known of them.
template <typename Shape>
__device__ void copy_queries(const BackwardHead& head, KeyTiles<Shape>& tiles, int query, int stage) {
  Shape::template copy_rows<kDepth>(tiles.query[stage], head.queries, query);
  Shape::template copy_rows<kDepth>(tiles.d_output[stage], head.d_outputs, query);
  if (const int r = static_cast<int>(threadIdx.x); r < kDepth) {
    tiles.logsumexp[stage][r] = head.row_value(head.logsumexp, query + r);
    tiles.delta[stage][r] = head.row_value(head.delta, query + r);
    const KeyRange seen = head.rule.seen_keys(query + r);
    tiles.first_key[stage][r] = seen.first;
    tiles.end_key[stage][r] = seen.end;
  }
}

// Products become P^T with its dropout and dP^T becomes dS^T, for a warp's keys from `key` on and a tile of queries.
template <typename Shape, int kTiles = Shape::kTiles>
__device__ void find_key_gradients(const BackwardHead& head, const KeyTiles<Shape>& tiles, int stage, int query,
                                   int key, float (&weights)[kTiles][kSteps][4], float (&d_scores)[kTiles][kSteps][4]) {
  const FloatRule& rule = head.rule;
  const bool all = Sight(rule, query, query + kDepth).sees_all(key, key + Shape::kWarpRows);
  const bool drops = rule.threshold != 0;
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
    const int row = key + m * 16 + fragment_row();
#pragma unroll
    for (int n = 0; n < kSteps; n += 2) {
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        const int column = n * 8 + fragment_column() * 2 + c;
        std::array<std::uint32_t, 4> words = {};
        if (drops) words = rule.draw_words(query + column, row);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int right = i / 2, h = i % 2, q = column + right * 8;  // right: of the two tiles of eight queries
          const KeyRange range = {tiles.first_key[stage][q], tiles.end_key[stage][q]};
          const bool seen = all | range.has(row + h * 8);
          const bool kept = rule.keeps(words[static_cast<std::size_t>(2 * right + h)], row % 2 != 0);
          float& weight = weights[m][n + right][2 * h + c];
          float& d_score = d_scores[m][n + right][2 * h + c];
          const ScoreGradient gradient =
              score_gradient(rule, weight, d_score, tiles.logsumexp[stage][q], tiles.delta[stage][q], seen, kept);
          weight = gradient.weight;
          d_score = gradient.d_score;
        }
      }
    }
  }
}

// Adds what one query head gives to the gradients of a tile of keys, which are in shared memory.
template <typename Shape, int kTiles = Shape::kTiles>
__device__ void add_head(const BackwardHead& head, KeyTiles<Shape>& tiles, int first_key,
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
      find_key_gradients<Shape>(head, tiles, stage, query, key, weights, d_scores);
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
  auto& head = *reinterpret_cast<BackwardHead*>(tiles.head);
  float d_key[kTiles][Shape::kColumnTiles][4] = {}, d_value[kTiles][Shape::kColumnTiles][4] = {};
  for (std::int64_t h = first_head; h < first_head + a.call.group; ++h) {
    __syncthreads();  // the head before this one
    if (threadIdx.x == 0) new (&head) BackwardHead(a, sequence, h);
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
  const std::int64_t count = a.query_tiles.count * a.call.heads;
  if (count == 0) return;
  constexpr std::size_t kBytes = sizeof(QueryTiles<Shape>);
  allow_shared_memory(float_query_kernel<Shape>, kBytes);
  float_query_kernel<Shape><<<grid_for(count, 1), Shape::kThreads, kBytes, current_stream()>>>(a);
  check_launch("attention float_query_kernel");
}

template <typename Shape>
void launch_keys(UploadedCall& uploaded, FloatBackward& a) {
  a.key_tiles = uploaded.key_tiles(Shape::kRows);
  const std::int64_t count = a.key_tiles.count * a.call.kv_heads;
  if (count == 0) return;
  constexpr std::size_t kBytes = sizeof(KeyTiles<Shape>);
  allow_shared_memory(float_key_kernel<Shape>, kBytes);
  float_key_kernel<Shape><<<grid_for(count, 1), Shape::kThreads, kBytes, current_stream()>>>(a);
  check_launch("attention float_key_kernel");
}

bool takes(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
           const AttentionGradients& gradients) {
  if (!is_for_tensor_cores(problem) || !inputs.d_output.defined() || inputs.d_weights.defined()) return false;
  return has_vectors(inputs.d_output) && has_vectors(gradients.query) && has_vectors(gradients.key) &&
         has_vectors(gradients.value);
}

}  // namespace

bool float_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                              AttentionGradients& gradients) {
  if (!takes(problem, inputs, gradients)) return false;
  bool is_taken = true;
  dispatch_columns(problem, [&]<int kDim>() {
    // Where one kernel's tiles have room, so have the other's.
    static_assert(sizeof(QueryTiles<FloatShape<kDim, 4, 1>>) <= sizeof(KeyTiles<FloatShape<kDim, 4, 1>>));
    is_taken = dispatch_rows<kDim, 1, KeyTiles>(problem, problem.key_length, problem.kv_heads, [&]<typename Shape>() {
      UploadedCall uploaded(problem);
      const DeviceBuffer delta(row_array_bytes(problem));
      FloatBackward a;
      a.call = uploaded.call();
      a.d_output = head_rows(inputs.d_output);
      a.logsumexp = static_cast<const float*>(inputs.logsumexp.raw_data());
      a.delta = delta.as<const float>();
      a.d_query = head_rows(gradients.query);
      a.d_key = head_rows(gradients.key);
      a.d_value = head_rows(gradients.value);
      find_deltas(a.call, inputs, DType::float32, delta.as<void>());
      launch_keys<Shape>(uploaded, a);
      dispatch_rows<kDim, 1, QueryTiles>(problem, problem.query_length, problem.heads,
                                         [&]<typename QueryShape>() { launch_queries<QueryShape>(uploaded, a); });
      if (!gradients.sinks.defined()) return;
      const DeviceBuffer reference(row_array_bytes(problem)), rest(row_array_bytes(problem));
      const RowReferences references = {.reference = reference.as<void>(), .rest = rest.as<void>()};
      find_references(uploaded, inputs.logsumexp, DType::float32, references);
      sum_sinks(a.call, references, a.delta, DType::float32, gradients.sinks);
    });
  });
  return is_taken;
}

}  // namespace headway::inline v0::internal::cuda

// The backward on any GPU, without atomics: every gradient is the sum of one block, or of parts in a fixed order.
//
//   P = exp(S - reference - rest), dP = dO V^T, dS = P * (dP - delta)
//   a block per tile of queries and head:        dQ = dS K
//   a block per tile of keys and key/value head: dV = P^T dO, dK = dS^T Q
//   a block per tile of a broadcast bias:        dS, summed over what was broadcast
#include <algorithm>

#include "base/divide.h"
#include "cuda/attention_score.cuh"
#include "cuda/element.cuh"
#include "cuda/portable_attention.h"

namespace headway::inline v0::internal::cuda {
namespace {

struct BackwardArguments {
  AttentionCall call;
  HeadRows d_output;            // likewise; without data: zero
  ScorePlane d_weights;         // without data: zero
  double d_weights_factor = 1;  // 1 / heads for the mean
  WeightsOf weights_of = WeightsOf::softmax;
  RowReferences references;
  void* delta = nullptr;  // (batch, heads, query_length): sum(dO * O) + sum(P * d_weights) - d_logsumexp
  HeadRows d_query;       // (batch, heads, query_length, head_dim)
  HeadRows d_key;         // (batch, kv_heads, key_length, head_dim)
  HeadRows d_value;       // (batch, kv_heads, key_length, value_dim)
  void* d_bias =
      nullptr;  // (batch, heads, query_length, key_length) of a bias that is broadcast along nothing, or null
  TileTable query_tiles;
  TileTable key_tiles;
  std::int64_t head_width = 0;   // columns of dQ or dK that a block computes
  std::int64_t value_width = 0;  // columns of dV that a block computes
  std::int64_t parts = 1;        // blocks that share a tile, one for each so many columns

  // Raw scores that were returned have gradients at masked keys too.
  __device__ bool reaches_masked_keys() const {
    return d_weights.data && (weights_of == WeightsOf::scores || weights_of == WeightsOf::softcapped);
  }
};

// One query head of one sequence: what its tiles of gradients are computed from.
template <typename T>
struct BackwardHead {
  using A = Compute<T>;
  const BackwardArguments& a;
  const ScoreRule<A> rule;
  const TileRows<T> queries, keys, values, d_outputs;
  const std::int64_t first_row;  // in (batch, heads, query_length)

  __device__ BackwardHead(const BackwardArguments& arguments, std::int64_t sequence, std::int64_t head)
      : a(arguments),
        rule(a.call, sequence, head),
        queries(query_rows(a.call.query)),
        keys(key_rows(a.call.key)),
        values(key_rows(a.call.value)),
        d_outputs(query_rows(a.d_output)),
        first_row(a.call.first_row(rule.sequence, head)) {}

  __device__ TileRows<T> query_rows(const HeadRows& rows) const {
    const Sequence& s = rule.sequence;
    return rows_at<T>(rows, s.batch, rule.head, s.query_begin, s.query_length);
  }
  __device__ TileRows<T> key_rows(const HeadRows& rows) const {
    const Sequence& s = rule.sequence;
    return rows_at<T>(rows, s.batch, rule.head / a.call.group, s.key_begin, s.key_length);
  }

  // What of rows q to q + 3 lies in an array (batch, heads, query_length).
  __device__ void read(const void* source, std::int64_t q, A (&target)[4]) const {
    read_rows(static_cast<const A*>(source) + first_row, q, rule.sequence.query_length, target);
  }

  // The gradient of the weight that was returned for query q and key k.
  __device__ A d_returned(std::int64_t q, std::int64_t k) const {
    const Sequence& s = rule.sequence;
    const ScorePlane& plane = a.d_weights;
    if (!plane.data || q < 0 || q >= s.query_length || k < 0 || k >= s.key_length) return A(0);
    const std::int64_t at = plane_offset(plane, s, rule.head) + q * plane.query_stride + k * plane.key_stride;
    return read_floating<A>(plane.data, plane.dtype, at) * static_cast<A>(a.d_weights_factor);
  }

  // P of a patch.
  __device__ void probabilities(const Tile<T>& tile, std::int64_t first_query, std::int64_t first_key,
                                Patch<A>& weights) const {
    const std::int64_t query = first_query + tile.row();
    tile.multiply(weights, queries, first_query, keys, first_key, a.call.head_dim);
    rule.apply(weights, query, first_key + tile.column());
    A reference[4], rest[4];
    read(a.references.reference, query, reference);
    read(a.references.rest, query, rest);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) weights[i][j] = probability(weights[i][j], reference[i], rest[i]);
    }
  }

  // P with its dropout, and the gradients of the raw scores; take_bias(i, j, gradient) gets those of the bias.
  template <typename TakeBias>
  __device__ void gradients(const Tile<T>& tile, std::int64_t first_query, std::int64_t first_key, Patch<A>& weights,
                            Patch<A>& d_scores, const TakeBias& take_bias) const {
    const std::int64_t query = first_query + tile.row(), key = first_key + tile.column();
    tile.multiply(weights, queries, first_query, keys, first_key, a.call.head_dim);
    tile.multiply(d_scores, d_outputs, first_query, values, first_key, a.d_output.data ? a.call.value_dim : 0);
    const bool inside = rule.in_limits(query, key + 3) && rule.in_limits(query + 3, key);
    const A keep_scale = a.call.dropout.threshold == 0 ? A(1) : static_cast<A>(a.call.dropout.scale);
    A reference[4], rest[4], delta[4];
    read(a.references.reference, query, reference);
    read(a.references.rest, query, rest);
    read(a.delta, query, delta);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      bool kept[4];
      rule.find_kept(query + i, key, kept);
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const A capped = rule.capped(times(weights[i][j], rule.scale));
        const A score = rule.masked(capped, query + i, key + j, inside);
        const A p = probability(score, reference[i], rest[i]);
        const A returned = d_returned(query + i, key + j);
        A d_weight = kept[j] ? d_scores[i][j] * keep_scale : A(0);
        if (a.weights_of == WeightsOf::softmax) d_weight += returned;
        // Under a mask dP may be NaN; a visible NaN must reach the result.
        A d_score = p > A(0) ? p * (d_weight - delta[i]) : p;
        if (a.weights_of == WeightsOf::masked && score != kMasked<A>) d_score += returned;
        take_bias(i, j, d_score);
        if (a.weights_of == WeightsOf::softcapped) d_score += returned;
        if (rule.softcap != A(0) && d_score != A(0)) {
          const A tangent = capped / rule.softcap;
          d_score *= A(1) - tangent * tangent;
        }
        if (a.weights_of == WeightsOf::scores) d_score += returned;
        weights[i][j] = kept[j] ? p * keep_scale : A(0);
        d_scores[i][j] = d_score;
      }
    }
  }
};

// How many of the rows from `first` on a tile has.
template <typename T>
__device__ int rows_in_tile(const TileRows<T>& rows, std::int64_t first) {
  return static_cast<int>(min(static_cast<std::int64_t>(Tile<T>::kTile), rows.count - first));
}

// delta += sum over keys of P * d_weights: the softmax's own backward.
template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    weights_dot_kernel(const __grid_constant__ BackwardArguments a) {
  using A = Compute<T>;
  constexpr int kTile = Tile<T>::kTile;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  for (std::int64_t work = blockIdx.x; work < a.query_tiles.count * a.call.heads; work += gridDim.x) {
    const TilePlace place = a.query_tiles.at(work % a.query_tiles.count);
    const BackwardHead<T> head(a, place.sequence, work / a.query_tiles.count);
    const ScoreRule<A>& rule = head.rule;
    const std::int64_t query = place.first + tile.row(), length = rule.sequence.query_length;
    const std::int64_t end_key = rule.end_key(min(place.first + kTile, length) - 1);
    A sums[4] = {};
    for (std::int64_t k = rule.first_key(place.first) / kTile * kTile; k < end_key; k += kTile) {
      Patch<A> weights;
      head.probabilities(tile, place.first, k, weights);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const A d_weight = head.d_returned(query + i, k + tile.column() + j);
          if (weights[i][j] != A(0)) sums[i] = fma(weights[i][j], d_weight, sums[i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const A sum = tile.row_sum(sums[i]);
      if (tile.column() == 0 && query + i < length) static_cast<A*>(a.delta)[head.first_row + query + i] += sum;
    }
  }
}

// ---- dQ, dK and dV ----

// dQ of one tile of queries; the gradient of a bias that is broadcast along nothing too.
template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    query_kernel(const __grid_constant__ BackwardArguments a) {
  using A = Compute<T>;
  constexpr int kTile = Tile<T>::kTile;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  const A ones[4] = {A(1), A(1), A(1), A(1)};
  const std::int64_t count = a.query_tiles.count * a.call.heads * a.parts;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = a.query_tiles.at(work % a.query_tiles.count);
    const BackwardHead<T> head(a, place.sequence, work / a.query_tiles.count % a.call.heads);
    const std::int64_t part = work / a.query_tiles.count / a.call.heads;
    const ScoreRule<A>& rule = head.rule;
    const Sequence& s = rule.sequence;
    const std::int64_t begin = part * a.head_width, end = min(begin + a.head_width, a.call.head_dim);
    const bool all = a.reaches_masked_keys();
    const std::int64_t first_key = all ? 0 : rule.first_key(place.first) / kTile * kTile;
    const std::int64_t end_key = all ? s.key_length : rule.end_key(min(place.first + kTile, s.query_length) - 1);
    tile.clear(tile.sums, end - begin);
    for (std::int64_t k = first_key; k < end_key; k += kTile) {
      Patch<A> weights, d_scores;
      head.gradients(tile, place.first, k, weights, d_scores, [&](int i, int j, A gradient) {
        if (!a.d_bias || part != 0) return;
        const std::int64_t q = place.first + tile.row() + i, column = k + tile.column() + j;
        if (q >= s.query_length || column >= s.key_length) return;
        static_cast<A*>(a.d_bias)[(head.first_row + q) * a.call.key_length + s.key_begin + column] = gradient;
      });
      tile.store_panel_transposed(d_scores);
      tile.add_rows(tile.sums, ones, head.keys, k, rows_in_tile(head.keys, k), begin, end);
    }
    const A factors[4] = {rule.scale, rule.scale, rule.scale, rule.scale};
    tile.write_rows(tile.sums, factors, head.query_rows(a.d_query), place.first, begin, end);
    __syncthreads();
  }
}

// Narrows the queries [first, end) to those that see any of the keys [first_key, end_key).
template <typename A>
__device__ void find_queries(const ScoreRule<A>& rule, std::int64_t first_key, std::int64_t end_key,
                             std::int64_t& first, std::int64_t& end) {
  const Sequence& s = rule.sequence;
  const std::int64_t right = rule.call.right, left = rule.call.left;
  if (right < kUnlimited) first = max(first, first_key - right - s.query_offset);
  if (left < kUnlimited) end = min(end, end_key + left - s.query_offset);
  if (first_key >= end_key) end = first;
}

// dK and dV of one tile of keys.
template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    key_kernel(const __grid_constant__ BackwardArguments a) {
  using A = Compute<T>;
  constexpr int kTile = Tile<T>::kTile;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  A* d_key = tile.sums;                           // (head_width / kTile, kTile, kTile)
  A* d_value = tile.sums + a.head_width * kTile;  // (value_width / kTile, kTile, kTile)
  const A ones[4] = {A(1), A(1), A(1), A(1)};
  const std::int64_t count = a.key_tiles.count * a.call.kv_heads * a.parts;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = a.key_tiles.at(work % a.key_tiles.count);
    const std::int64_t kv_head = work / a.key_tiles.count % a.call.kv_heads;
    const std::int64_t part = work / a.key_tiles.count / a.call.kv_heads;
    const std::int64_t begin = part * a.head_width, end = min(begin + a.head_width, a.call.head_dim);
    const std::int64_t value_begin = part * a.value_width;
    const std::int64_t value_end = a.d_output.data ? min(value_begin + a.value_width, a.call.value_dim) : 0;
    tile.clear(d_key, a.head_width);
    tile.clear(d_value, a.value_width);
    for (std::int64_t h = kv_head * a.call.group; h < (kv_head + 1) * a.call.group; ++h) {
      const BackwardHead<T> head(a, place.sequence, h);
      const Sequence& s = head.rule.sequence;
      std::int64_t first_query = 0, end_query = s.query_length;
      if (!a.reaches_masked_keys()) {
        find_queries(head.rule, place.first, min(place.first + kTile, s.key_count), first_query, end_query);
      }
      for (std::int64_t q = first_query / kTile * kTile; q < end_query; q += kTile) {
        Patch<A> weights, d_scores;
        head.gradients(tile, q, place.first, weights, d_scores, [](int, int, A) {});
        const int depth = rows_in_tile(head.queries, q);
        tile.store_panel(weights);
        tile.add_rows(d_value, ones, head.d_outputs, q, depth, value_begin, value_end);
        __syncthreads();  // the panel
        tile.store_panel(d_scores);
        tile.add_rows(d_key, ones, head.queries, q, depth, begin, end);
      }
    }
    const BackwardHead<T> head(a, place.sequence, kv_head * a.call.group);
    const A scale = head.rule.scale;
    const A factors[4] = {scale, scale, scale, scale};
    tile.write_rows(d_key, factors, head.key_rows(a.d_key), place.first, begin, end);
    tile.write_rows(d_value, ones, head.key_rows(a.d_value), place.first, value_begin,
                    min(value_begin + a.value_width, a.call.value_dim));
    __syncthreads();
  }
}

// ---- a bias that was broadcast ----

// Which dimensions of the bias's gradient are kept, and how its sums are shared out.
struct BiasSums {
  void* target = nullptr;  // (parts, batch, heads, queries, keys): each 1 where it is not kept
  std::int64_t batch = 1, heads = 1, queries = 1, keys = 1;
  bool keeps_batch = false, keeps_head = false, keeps_query = false, keeps_key = false;
  std::int64_t query_tiles = 1, key_tiles = 1;
  std::int64_t pairs = 1;  // of a sequence and a head, that are summed
  std::int64_t parts = 1;  // of the pairs

  __host__ __device__ std::int64_t elements() const { return batch * heads * queries * keys; }
  __host__ __device__ std::int64_t blocks() const { return batch * heads * query_tiles * key_tiles; }
};

// Adds the share of one head of one sequence to a tile of the bias. Tiles count rows of tensors, a sequence its own.
template <typename T, typename A = Compute<T>>
__device__ void add_bias_tile(const BackwardHead<T>& head, const BiasSums& bias, const Tile<T>& tile,
                              std::int64_t query_tile, std::int64_t key_tile, Patch<A>& sums) {
  constexpr int kTile = Tile<T>::kTile;
  const ScoreRule<A>& rule = head.rule;
  const Sequence& s = rule.sequence;
  const std::int64_t only_query = query_tile * kTile - s.query_begin, only_key = key_tile * kTile - s.key_begin;
  const std::int64_t query_end = bias.keeps_query ? min(only_query + 1, s.query_length) : s.query_length;
  for (std::int64_t q = bias.keeps_query ? only_query : 0; q < query_end; q += kTile) {
    if (q + kTile <= 0) continue;
    const std::int64_t first_key = rule.first_key(max(q, std::int64_t{0}));
    const std::int64_t end_key = rule.end_key(min(q + kTile, s.query_length) - 1);
    const std::int64_t key_end = bias.keeps_key ? min(only_key + 1, end_key) : end_key;
    for (std::int64_t k = bias.keeps_key ? only_key : first_key / kTile * kTile; k < key_end; k += kTile) {
      if (k + kTile <= first_key) continue;
      Patch<A> weights, d_scores;
      head.gradients(tile, q, k, weights, d_scores, [&](int i, int j, A gradient) { sums[i][j] += gradient; });
    }
  }
}

// Sums the panel over its columns and rows where they are not kept, and writes what is left.
template <typename T, typename A = Compute<T>>
__device__ void write_bias_tile(const BiasSums& bias, const Tile<T>& tile, std::int64_t query_tile,
                                std::int64_t key_tile, A* target) {
  constexpr int kTile = Tile<T>::kTile, kStride = Tile<T>::kStride;
  const int thread = static_cast<int>(threadIdx.x);
  const int rows = bias.keeps_query ? kTile : 1, columns = bias.keeps_key ? kTile : 1;
  __syncthreads();
  if (!bias.keeps_key && thread < kTile) {
    A sum = 0;
    for (int c = 0; c < kTile; ++c) sum += tile.panel[thread * kStride + c];
    tile.panel[thread * kStride] = sum;
  }
  __syncthreads();
  if (!bias.keeps_query && thread < columns) {
    A sum = 0;
    for (int r = 0; r < kTile; ++r) sum += tile.panel[r * kStride + thread];
    tile.panel[thread] = sum;
  }
  __syncthreads();
  for (int e = thread; e < rows * columns; e += Tile<T>::kThreads) {
    const int r = e / columns, c = e % columns;
    const std::int64_t q = query_tile * kTile + r, k = key_tile * kTile + c;
    if (q < bias.queries && k < bias.keys) target[q * bias.keys + k] = tile.panel[r * kStride + c];
  }
  __syncthreads();
}

template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads)
    bias_kernel(const __grid_constant__ BackwardArguments a, const __grid_constant__ BiasSums bias) {
  using A = Compute<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  const std::int64_t summed_heads = bias.keeps_head ? 1 : a.call.heads;
  for (std::int64_t work = blockIdx.x; work < bias.blocks() * bias.parts; work += gridDim.x) {
    const std::int64_t key_tile = work % bias.key_tiles, query_tile = work / bias.key_tiles % bias.query_tiles;
    const std::int64_t plane = work / bias.key_tiles / bias.query_tiles;  // (parts, batch, heads)
    const std::int64_t part = plane / bias.heads / bias.batch;
    Patch<A> sums = {};
    for (std::int64_t pair = part * bias.pairs / bias.parts; pair < (part + 1) * bias.pairs / bias.parts; ++pair) {
      const std::int64_t sequence = bias.keeps_batch ? plane / bias.heads % bias.batch : pair / summed_heads;
      const std::int64_t h = bias.keeps_head ? plane % bias.heads : pair % summed_heads;
      const BackwardHead<T> head(a, sequence, h);
      add_bias_tile<T>(head, bias, tile, query_tile, key_tile, sums);
    }
    tile.store_panel(sums);
    write_bias_tile<T>(bias, tile, query_tile, key_tile,
                       static_cast<A*>(bias.target) + plane * bias.queries * bias.keys);
  }
}

// target (count) = the sum of partials (parts, count), in their order.
template <typename A>
__global__ void sum_parts_kernel(const A* partials, std::int64_t parts, std::int64_t count, A* target) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    A sum = 0;
    for (std::int64_t p = 0; p < parts; ++p) sum += partials[p * count + i];
    target[i] = sum;
  }
}

// ---- launches ----

// True when a bias has an element of its own for every score.
bool is_full(const AttentionProblem& problem, const Tensor& d_bias) {
  return d_bias.size(0) == problem.batch && d_bias.size(1) == problem.heads && d_bias.size(2) == problem.query_length &&
         d_bias.size(3) == problem.key_length;
}

template <typename T>
void sum_bias(const BackwardArguments& a, const AttentionProblem& problem, const Tensor& d_bias) {
  using A = Compute<T>;
  constexpr std::int64_t kTile = Tile<T>::kTile, kEnoughBlocks = 512;
  constexpr int kThreads = 256;
  const auto sequences = static_cast<std::int64_t>(problem.sequences.size());
  if (d_bias.element_count() == 0 || sequences * problem.heads == 0) return;
  BiasSums bias;
  bias.batch = d_bias.size(0);
  bias.heads = d_bias.size(1);
  bias.queries = d_bias.size(2);
  bias.keys = d_bias.size(3);
  bias.keeps_batch = !problem.packed && bias.batch == problem.batch;
  bias.keeps_head = bias.heads == problem.heads;
  bias.keeps_query = bias.queries == problem.query_length;
  bias.keeps_key = bias.keys == problem.key_length;
  if (bias.keeps_query) bias.query_tiles = divide_up(bias.queries, kTile);
  if (bias.keeps_key) bias.key_tiles = divide_up(bias.keys, kTile);
  bias.pairs = (bias.keeps_batch ? 1 : sequences) * (bias.keeps_head ? 1 : problem.heads);
  bias.parts = std::clamp<std::int64_t>(kEnoughBlocks / bias.blocks(), 1, bias.pairs);
  const std::size_t partial_bytes = static_cast<std::size_t>(bias.parts * bias.elements()) * sizeof(A);
  const DeviceBuffer partials(bias.parts == 1 ? 0 : partial_bytes);
  bias.target = bias.parts == 1 ? d_bias.raw_data() : partials.as<void>();
  const unsigned grid = grid_for(bias.blocks() * bias.parts, 1);
  bias_kernel<T><<<grid, Tile<T>::kThreads, shared_bytes<T>(0), current_stream()>>>(a, bias);
  check_launch("attention bias_kernel");
  if (bias.parts == 1) return;
  const std::int64_t count = bias.elements();
  sum_parts_kernel<A><<<grid_for(count, kThreads), kThreads, 0, current_stream()>>>(
      partials.as<const A>(), bias.parts, count, static_cast<A*>(d_bias.raw_data()));
  check_launch("attention sum_parts_kernel");
}

template <typename T>
void launch_weights_dot(const BackwardArguments& a) {
  const std::int64_t tiles = a.query_tiles.count * a.call.heads;
  if (tiles == 0 || !a.d_weights.data || a.weights_of != WeightsOf::softmax) return;
  weights_dot_kernel<T><<<grid_for(tiles, 1), Tile<T>::kThreads, shared_bytes<T>(0), current_stream()>>>(a);
  check_launch("attention weights_dot_kernel");
}

template <typename T>
void launch_tiles(BackwardArguments& a) {
  const AttentionCall& call = a.call;
  a.head_width = column_width<T>(call.head_dim, 1);
  a.parts = divide_up(call.head_dim, a.head_width);
  launch_blocks(query_kernel<T>,
                {"attention query_kernel", a.query_tiles.count * call.heads * a.parts, Tile<T>::kThreads,
                 shared_bytes<T>(a.head_width)},
                a);
  a.head_width = column_width<T>(call.head_dim, 2);
  a.value_width = column_width<T>(call.value_dim, 2);
  a.parts = std::max(divide_up(call.head_dim, a.head_width), divide_up(call.value_dim, a.value_width));
  launch_blocks(key_kernel<T>,
                {"attention key_kernel", a.key_tiles.count * call.kv_heads * a.parts, Tile<T>::kThreads,
                 shared_bytes<T>(a.head_width + a.value_width)},
                a);
}

// The gradient of the returned weights as a plane; the mean has one for all heads.
ScorePlane weights_plane(const AttentionProblem& problem, const Tensor& d_weights) {
  if (!d_weights.defined() || problem.weights != Weights::mean) return score_plane(d_weights);
  return {d_weights.raw_data(), d_weights.stride(0), 0, d_weights.stride(1), d_weights.stride(2), d_weights.dtype()};
}

BackwardArguments make_arguments(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                 const AttentionGradients& gradients, const UploadedCall& uploaded) {
  BackwardArguments a;
  a.call = uploaded.call();
  a.d_output = head_rows(inputs.d_output);
  a.d_weights = weights_plane(problem, inputs.d_weights);
  if (problem.weights == Weights::mean) a.d_weights_factor = 1.0 / static_cast<double>(problem.heads);
  a.weights_of = problem.weights_of;
  a.d_query = head_rows(gradients.query);
  a.d_key = head_rows(gradients.key);
  a.d_value = head_rows(gradients.value);
  if (gradients.bias.defined() && is_full(problem, gradients.bias)) a.d_bias = gradients.bias.raw_data();
  return a;
}

}  // namespace

void portable_attention_backward(const AttentionProblem& problem, const AttentionBackwardInputs& inputs,
                                 AttentionGradients& gradients) {
  UploadedCall uploaded(problem);
  BackwardArguments a = make_arguments(problem, inputs, gradients, uploaded);
  const DeviceBuffer reference(row_array_bytes(problem)), rest(row_array_bytes(problem));
  const DeviceBuffer delta(row_array_bytes(problem));
  a.references = {.reference = reference.as<void>(), .rest = rest.as<void>()};
  a.delta = delta.as<void>();
  const DType dtype = problem.query.dtype();
  find_references(uploaded, inputs.logsumexp, dtype, a.references);
  find_deltas(a.call, inputs, dtype, a.delta);
  dispatch_elements(dtype, [&]<typename T>() {
    a.query_tiles = uploaded.query_tiles(Tile<T>::kTile);
    a.key_tiles = uploaded.key_tiles(Tile<T>::kTile);
    launch_weights_dot<T>(a);
    launch_tiles<T>(a);
    if (gradients.bias.defined() && !a.d_bias) sum_bias<T>(a, problem, gradients.bias);
  });
  if (gradients.sinks.defined()) sum_sinks(a.call, a.references, a.delta, dtype, gradients.sinks);
}

}  // namespace headway::inline v0::internal::cuda

// The forward on any GPU: a block has a tile of queries of one head and goes through the keys that they see.
//
//   for each tile of keys
//     S = Q K^T
//     P = exp(S - m)      (m: the largest score so far)
//     O = O * exp(old m - m) + P V
#include <algorithm>

#include "base/divide.h"
#include "cuda/attention_score.cuh"
#include "cuda/element.cuh"
#include "cuda/portable_attention.h"

namespace headway::inline v0::internal::cuda {
namespace {

struct ForwardArguments {
  AttentionCall call;
  HeadRows output;            // (batch, heads, query_length, value_dim)
  void* logsumexp = nullptr;  // (batch, heads, query_length)
  TileTable tiles;            // of the queries
  std::int64_t width = 0;     // columns of the output that a block computes
  std::int64_t parts = 1;     // blocks that share a tile of queries, `width` columns each
};

// Sets the weights to 0 that dropout drops; the others are scaled at the end, all at once.
template <typename A>
__device__ void drop_weights(const ScoreRule<A>& rule, std::int64_t query, std::int64_t key, Patch<A>& weights) {
  if (rule.call.dropout.threshold == 0) return;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    bool kept[4];
    rule.find_kept(query + i, key, kept);
#pragma unroll
    for (int j = 0; j < 4; ++j) weights[i][j] = kept[j] ? weights[i][j] : A(0);
  }
}

// Writes the log-sum-exp of a thread's rows where `writes`; leaves what their outputs are multiplied by in `factors`.
template <typename T, typename A = Compute<T>>
__device__ void finish_rows(const ScoreRule<A>& rule, RowSums<T>& sums, std::int64_t query, A* logsumexp, bool writes,
                            A (&factors)[4]) {
  const AttentionCall& call = rule.call;
  const A keep_scale = call.dropout.threshold == 0 ? A(1) : static_cast<A>(call.dropout.scale);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const A correction = call.sinks ? sums.add_sink(i, static_cast<A>(call.sinks[rule.head])) : A(1);
    const A sum = sums.sum[i];
    factors[i] = sum == A(0) ? A(0) : keep_scale * correction / sum;
    if (writes && query + i < rule.sequence.query_length) {
      logsumexp[query + i] = sum == A(0) ? kMasked<A> : sums.maximum[i] + log(sum);
    }
  }
}

// The columns [begin, end) of the output of one tile of queries; the log-sum-exp too where `writes_logsumexp`.
template <typename T, typename A = Compute<T>>
__device__ void forward_tile(const ForwardArguments& a, const Tile<T>& tile, const ScoreRule<A>& rule,
                             std::int64_t first_query, std::int64_t begin, std::int64_t end, bool writes_logsumexp) {
  constexpr int kTile = Tile<T>::kTile;
  const AttentionCall& call = a.call;
  const Sequence& s = rule.sequence;
  const std::int64_t kv_head = rule.head / call.group;
  const TileRows<T> queries = rows_at<T>(call.query, s.batch, rule.head, s.query_begin, s.query_length);
  const TileRows<T> keys = rows_at<T>(call.key, s.batch, kv_head, s.key_begin, s.key_count);
  const TileRows<T> values = rows_at<T>(call.value, s.batch, kv_head, s.key_begin, s.key_count);
  const TileRows<T> output = rows_at<T>(a.output, s.batch, rule.head, s.query_begin, s.query_length);
  const std::int64_t query = first_query + tile.row();
  const std::int64_t last_query = min(first_query + kTile, s.query_length) - 1;
  const std::int64_t end_key = rule.end_key(last_query);
  RowSums<T> sums;
  A factors[4];
  tile.clear(tile.sums, end - begin);
  for (std::int64_t k = rule.first_key(first_query) / kTile * kTile; k < end_key; k += kTile) {
    Patch<A> weights;
    tile.multiply(weights, queries, first_query, keys, k, call.head_dim);
    rule.apply(weights, query, k + tile.column());
    sums.add(weights, factors);
    drop_weights(rule, query, k + tile.column(), weights);
    tile.store_panel_transposed(weights);
    const int depth = static_cast<int>(min(static_cast<std::int64_t>(kTile), end_key - k));
    tile.add_rows(tile.sums, factors, values, k, depth, begin, end);
  }
  A* logsumexp = static_cast<A*>(a.logsumexp) + call.first_row(s, rule.head);
  finish_rows<T>(rule, sums, query, logsumexp, writes_logsumexp && tile.column() == 0, factors);
  tile.write_rows(tile.sums, factors, output, first_query, begin, end);
}

template <typename T>
__global__ void __launch_bounds__(Tile<T>::kThreads, Tile<T>::kBlocks)
    forward_kernel(const __grid_constant__ ForwardArguments a) {
  using A = Compute<T>;
  extern __shared__ __align__(16) unsigned char shared[];
  const Tile<T> tile(reinterpret_cast<A*>(shared));
  const std::int64_t count = a.tiles.count * a.call.heads * a.parts;
  for (std::int64_t work = blockIdx.x; work < count; work += gridDim.x) {
    const TilePlace place = a.tiles.at(work % a.tiles.count);
    const std::int64_t head = work / a.tiles.count % a.call.heads;
    const std::int64_t part = work / a.tiles.count / a.call.heads;
    const ScoreRule<A> rule(a.call, place.sequence, head);
    const std::int64_t begin = part * a.width;
    const std::int64_t end = min(begin + a.width, a.call.value_dim);
    forward_tile<T>(a, tile, rule, place.first, begin, end, part == 0);
    __syncthreads();
  }
}

template <typename T>
void launch_forward(UploadedCall& uploaded, const AttentionResult& result) {
  using Shape = Tile<T>;
  const AttentionCall& call = uploaded.call();
  ForwardArguments a;
  a.call = call;
  a.output = head_rows(result.output);
  a.logsumexp = result.logsumexp.raw_data();
  a.tiles = uploaded.query_tiles(Shape::kTile);
  a.width = column_width<T>(call.value_dim, 1);
  a.parts = std::max<std::int64_t>(1, divide_up(call.value_dim, a.width));
  launch_blocks(
      forward_kernel<T>,
      {"attention forward_kernel", a.tiles.count * call.heads * a.parts, Shape::kThreads, shared_bytes<T>(a.width)}, a);
}

}  // namespace

void portable_attention(const AttentionProblem& problem, AttentionResult& result) {
  UploadedCall uploaded(problem);
  dispatch_elements(problem.query.dtype(), [&]<typename T>() { launch_forward<T>(uploaded, result); });
}

}  // namespace headway::inline v0::internal::cuda

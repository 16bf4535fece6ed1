// What the float32 backward's kernels share: one head's rows, the gradient of a score, rows that NaN has spoilt.
#pragma once

#include "cuda/float_score.cuh"

namespace headway::inline v0::internal::cuda {

struct FloatBackward {
  AttentionCall call;
  HeadRows output;                     // (batch, heads, query_length, value_dim)
  HeadRows d_output;                   // likewise
  const float* logsumexp = nullptr;    // (batch, heads, query_length)
  const float* d_logsumexp = nullptr;  // likewise, or null
  float* delta = nullptr;              // likewise: sum(dO * O) - d_logsumexp
  HeadRows d_query;                    // (batch, heads, query_length, head_dim)
  HeadRows d_key;                      // (batch, kv_heads, key_length, head_dim)
  HeadRows d_value;                    // (batch, kv_heads, key_length, value_dim)
  TileTable query_tiles;
  TileTable key_tiles;
};

// What one query head of one sequence reads and writes.
struct FloatBackwardHead : FloatHead {
  FloatRows outputs, d_outputs;  // (query_length, value_dim)
  FloatRows d_queries;           // (query_length, head_dim)
  FloatRows d_keys, d_values;    // (key_length, head_dim), (key_length, value_dim)
  const float* logsumexp;        // (query_length)
  const float* d_logsumexp;      // likewise, or null
  float* delta;                  // likewise

  __device__ FloatBackwardHead(const FloatBackward& a, std::int64_t index, std::int64_t head)
      : FloatHead(a.call, index, head) {
    const AttentionCall& call = a.call;
    const Sequence s = call.sequence_at(index);
    const std::int64_t kv_head = head / call.group;
    outputs = float_rows(a.output, s.batch, head, s.query_begin, s.query_length, call.value_dim);
    d_outputs = float_rows(a.d_output, s.batch, head, s.query_begin, s.query_length, call.value_dim);
    d_queries = float_rows(a.d_query, s.batch, head, s.query_begin, s.query_length, call.head_dim);
    d_keys = float_rows(a.d_key, s.batch, kv_head, s.key_begin, s.key_length, call.head_dim);
    d_values = float_rows(a.d_value, s.batch, kv_head, s.key_begin, s.key_length, call.value_dim);
    logsumexp = a.logsumexp + call.first_row(s, head);
    d_logsumexp = a.d_logsumexp ? a.d_logsumexp + call.first_row(s, head) : nullptr;
    delta = a.delta + call.first_row(s, head);
  }

  // Element q of the log-sum-exp or delta; 0 past the last.
  __device__ float row_value(const float* array, int q) const { return q < rule.query_length ? array[q] : 0.f; }
};

// A weight with its dropout, and the gradient of its raw score without the scale.
struct ScoreGradient {
  float weight, d_score;
};

// The results of a dot product and its dP. Under a mask dP may be NaN; a visible NaN must reach the result.
__device__ inline ScoreGradient score_gradient(const FloatRule& rule, float product, float d_weight, float logsumexp,
                                               float delta, bool seen, bool kept) {
  const float power = power_of_two(fmaf(product, rule.scale, -logsumexp) * kLog2E);
  const float p = seen ? power : 0.f, d_kept = kept ? d_weight * rule.keep_scale : 0.f;
  const float d_score = p * (d_kept - delta);
  return {kept ? p * rule.keep_scale : 0.f, p > 0.f ? d_score : p};
}

// ---- rows that NaN or infinity has spoilt ----

// The gradient of one score by a whole warp. The query sees the key.
__device__ inline ScoreGradient pair_gradient(const FloatBackwardHead& head, int q, int k) {
  const float product = row_product(head.queries.at(q), head.keys.at(k), head.keys.columns);
  const float d_weight = row_product(head.d_outputs.at(q), head.values.at(k), head.values.columns);
  const bool seen = head.logsumexp[q] != kMasked<float>;
  return score_gradient(head.rule, product, d_weight, head.logsumexp[q], head.delta[q], seen,
                        head.rule.keeps_weight(q, k));
}

// dQ of one row by one warp, key by key.
__device__ __noinline__ inline void repair_d_query(const FloatBackwardHead& head, int q) {
  const KeyRange seen = head.rule.seen_keys(q);
  WarpRow d_query;
  for (int k = seen.first; k < seen.end; ++k) {
    d_query.add(pair_gradient(head, q, k).d_score, head.keys.at(k), head.keys.columns);
  }
  d_query.write(head.rule.scale, head.d_queries.at(q), head.queries.columns);
}

// dK and dV of one row by one warp, query by query.
__device__ __noinline__ inline void repair_d_key(const FloatBackward& a, std::int64_t sequence, std::int64_t kv_head,
                                                 int k) {
  WarpRow d_key, d_value;
  for (std::int64_t h = kv_head * a.call.group; h < (kv_head + 1) * a.call.group; ++h) {
    const FloatBackwardHead head(a, sequence, h);
    for (int q = 0; q < head.queries.count; ++q) {
      if (!head.rule.seen_keys(q).has(k)) continue;
      const ScoreGradient gradient = pair_gradient(head, q, k);
      d_key.add(gradient.d_score, head.queries.at(q), head.queries.columns);
      d_value.add(gradient.weight, head.d_outputs.at(q), head.d_outputs.columns);
    }
  }
  const FloatBackwardHead head(a, sequence, kv_head * a.call.group);
  d_key.write(head.rule.scale, head.d_keys.at(k), head.keys.columns);
  d_value.write(1.f, head.d_values.at(k), head.values.columns);
}
// ---- scores of some queries ----

// What is known of this thread's rows r and r + 8 of each tile of queries.
template <int kTiles>
struct FloatRowStatistics {
  float logsumexp[kTiles][2], delta[kTiles][2];

  __device__ FloatRowStatistics(const FloatBackwardHead& head, int query) {
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
__device__ void find_d_scores(const FloatRule& rule, const Sight& sight, const FloatRowStatistics<kTiles>& rows,
                              int query, int key, const float (&products)[kTiles][kSteps][4],
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

// ---- scores of some keys ----

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

// What is known of a tile of queries, in shared memory.
struct QueryStatistics {
  float logsumexp[kDepth];
  float delta[kDepth];
  int first_key[kDepth];  // what they see
  int end_key[kDepth];

  // Reads all of row `r` but its delta, for queries from `query` on; rows past the last are left alone.
  __device__ void fill_row(const FloatBackwardHead& head, int query, int r) {
    if (r >= kDepth) return;
    logsumexp[r] = head.row_value(head.logsumexp, query + r);
    const KeyRange seen = head.rule.seen_keys(query + r);
    first_key[r] = seen.first;
    end_key[r] = seen.end;
  }
  // Reads all of row `r`.
  __device__ void fill(const FloatBackwardHead& head, int query, int r) {
    if (r >= kDepth) return;
    fill_row(head, query, r);
    delta[r] = head.row_value(head.delta, query + r);
  }
};

// Products become P^T with its dropout and dP^T becomes dS^T, for a warp's keys from `key` on and a tile of queries.
template <int kTiles>
__device__ void find_key_gradients(const FloatRule& rule, const QueryStatistics& queries, int query, int key,
                                   float (&weights)[kTiles][kSteps][4], float (&d_scores)[kTiles][kSteps][4]) {
  const bool all = Sight(rule, query, query + kDepth).sees_all(key, key + 16 * kTiles);
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
          const KeyRange range = {queries.first_key[q], queries.end_key[q]};
          const bool seen = all | range.has(row + h * 8);
          const bool kept = rule.keeps(words[static_cast<std::size_t>(2 * right + h)], row % 2 != 0);
          float& weight = weights[m][n + right][2 * h + c];
          float& d_score = d_scores[m][n + right][2 * h + c];
          const ScoreGradient gradient =
              score_gradient(rule, weight, d_score, queries.logsumexp[q], queries.delta[q], seen, kept);
          weight = gradient.weight;
          d_score = gradient.d_score;
        }
      }
    }
  }
}

}  // namespace headway::inline v0::internal::cuda

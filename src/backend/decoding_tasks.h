// Steps of decoding as every backend takes them. Features are the last dimension, which is contiguous everywhere; all
// other tensors are dense. An index out of range yields a row of NaN, or writes nothing.
#pragma once

#include <cstdint>

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// result = weight[tokens] * scale + positions[position]
struct EmbedStep {
  Tensor weight;     // [count, features]
  Tensor tokens;     // [rows] int64
  Tensor positions;  // [length, features]
  Tensor position;   // [1] int64
  double scale = 1;
  Tensor result;  // [rows, features]
};

// result = attention of one query per row over keys and values that rows share. With fresh ones, row r sees the tokens
// up to `position`, that one from its own fresh ones, which are put into entry r of the cache, and origins[r, position]
// becomes r. Without, it sees lengths[e] tokens of the entry e = origins[r].
struct CacheAttention {
  Tensor query;     // [rows, features], rows of any stride
  Tensor fresh;     // [rows, 2 * features], likewise; undefined: none
  Tensor cache;     // [entries, capacity, 2 * features]
  Tensor origins;   // int32 [rows, capacity] with fresh ones, else [rows]
  Tensor position;  // [1] int64 with fresh ones, else undefined
  Tensor lengths;   // [entries] int64 without fresh ones, else undefined
  std::int64_t heads = 1;
  Tensor result;  // [rows, features]
};

// The most likely next tokens of every row, the best first; of equal ones the lower id comes first.
struct TopTokens {
  Tensor tokens;     // [rows, count] int64; -1 where there are no more
  Tensor logits;     // [rows, count] float32; -infinity likewise
  Tensor logsumexp;  // [rows] float32: log-probabilities are logits - logsumexp
};

struct TopTask {
  Tensor logits;               // [rows, classes]
  std::int64_t excluded = -1;  // counts in logsumexp and is never chosen; -1: none
  TopTokens top;
};

// The tokens that greedy search has chosen, step by step.
struct GreedyHistory {
  Tensor tokens;  // [capacity, rows] int64
  Tensor scores;  // [capacity, rows] float32: log-probabilities
};

// The best token of each row becomes its newest one and is put into the history at `position`, which moves on by one.
struct TakeBest {
  TopTokens top;
  Tensor newest;  // [rows] int64
  GreedyHistory history;
  Tensor position;  // [1] int64
};

// result[i] = source[indices[i]], zeros where the index is out of range.
struct GatherRows {
  Tensor source;   // [count, ...]
  Tensor indices;  // [rows] int64
  Tensor result;   // [rows, ...]
};

}  // namespace headway::inline v0::internal

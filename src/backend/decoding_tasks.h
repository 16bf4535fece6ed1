// Steps of decoding as every backend takes them. Features are the last dimension, which is contiguous everywhere; all
// other tensors are dense. An index out of range yields a row of NaN, or writes nothing. Rows are hypotheses, one new
// token each; where many tokens of a prompt are taken at once, rows are tokens.
#pragma once

#include <cstdint>

#include "headway/activation.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// result = weight[tokens] * scale + positions[position], without the latter where there is no table.
struct EmbedStep {
  Tensor weight = {};     // [count, features]
  Tensor scales = {};     // [count] float32: of the rows of an int8 weight, beside float32 positions and results
  Tensor tokens = {};     // [rows] int64
  Tensor positions = {};  // [length, features]; undefined: none
  Tensor position = {};   // [rows] int64: each row's place in `positions`; undefined without them
  double scale = 1;
  Tensor result = {};  // [rows, features]
};

enum class StepNorm { none, layer, rms };

// A norm over the features of each row.
struct StepNormWeights {
  StepNorm kind = StepNorm::none;
  Tensor weight = {};  // [features], of the rows' dtype
  Tensor bias = {};    // [features], likewise; undefined: none
  double epsilon = 1e-5;
};

// Products of 8 bits with more inputs might not fit into a sum of 32 bits.
inline constexpr std::int64_t kMostQuantizedInputs = 1 << 17;

// y = norm(x) W^T + bias. The result is activation(y) + added; where `gated`, activation(first half of y) * second half
// of y, and nothing is added. One dtype throughout.
struct LinearStep {
  Tensor x = {};              // [rows, in], rows of any stride
  StepNormWeights norm = {};  // of x
  Tensor weight = {};         // [out, in]; undefined where `packed` is all that the device reads
  Tensor packed = {};         // the weight as Backend::pack_weight() returned it; undefined: not packed
  Tensor scales = {};         // [out] float32: the packed weight is int8, times these, and everything else is float32.
                              // Rows of norm(x) are quantized as weights are
  Tensor bias = {};           // [out]; undefined: none
  Activation activation = Activation::none;
  bool gated = false;
  Tensor added = {};   // [rows, out]; undefined: none; may be the result. Excludes an activation
  Tensor result = {};  // [rows, out], or [rows, out / 2] where gated
};

// How the scores of a query and keys are computed: scale * q k, the softcap, ALiBi and the bias of their distance, the
// window, and the softmax with the sink as one more score. A row's query has the position of its newest token.
struct StepScores {
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;  // divides heads; neighbouring heads share one
  std::int64_t head_dim = 0;
  double scale = 1;
  double softcap = 0;         // 0: none
  std::int64_t window = -1;   // keys before the query's position that it sees; -1: all
  Tensor alibi_slopes = {};   // [heads] float32: -slope * distance is added; undefined: none
  Tensor distance_bias = {};  // [heads, distances] float32, by position - key position; farther ones have the last
  Tensor sinks = {};          // [heads] float32; undefined: none
};

// New tokens for a cache. Queries and keys are normed (RMS, each head by itself) and rotated: pairs (a, b) become
// (a cos - b sin, b cos + a sin). The queries stay where they are; keys and values go to the cache at [entry,
// position], and origins[row, position] becomes the entry.
struct CacheAppend {
  Tensor projected = {};  // [rows, (heads + 2 * kv_heads) * head_dim], rows of any stride: queries, keys, values
  Tensor positions = {};  // [rows] int64
  Tensor entries = {};    // [rows] int32; undefined: row r has entry r
  Tensor cache = {};      // [entries, capacity, 2 * kv_heads * head_dim]: keys, then values, each [kv_heads, head_dim]
  Tensor origins = {};    // [rows, capacity] int32; undefined: not written
  std::int64_t heads = 1;
  std::int64_t kv_heads = 1;
  std::int64_t head_dim = 0;
  Tensor query_norm = {};  // [head_dim] weights, of projected's dtype; undefined: no norms
  Tensor key_norm = {};    // likewise
  double norm_epsilon = 1e-6;
  Tensor rotation = {};  // [length, dims] float32: dims / 2 cosines, then dims / 2 sines of each position, times the
                         // factor; dims <= head_dim. Undefined: none
  bool interleaved = false;  // pairs are neighbours (2i, 2i + 1), else halves (i, i + dims / 2)
};

// result = attention of one query per row over keys and values that rows share. With new tokens they are appended first
// (row r to its entry), and row r sees its past and itself: token t lies in the entry origins[r, t], up to its
// position; the queries in `projected` may or may not be changed. Without, it sees lengths[e] tokens of the entry
// e = origins[r], at no distance.
struct CacheAttention {
  CacheAppend append = {};  // projected is undefined where there are no new tokens
  Tensor query = {};        // [rows, heads * head_dim] without new tokens, rows of any stride
  Tensor cache = {};        // [entries, capacity, 2 * kv_heads * head_dim], that of `append` where there is one
  Tensor origins = {};      // int32 [rows, capacity] with new tokens, else [rows]
  Tensor lengths = {};      // [entries] int64 without new tokens
  StepScores scores = {};
  Tensor result = {};  // [rows, heads * head_dim]
};

// The most likely next tokens of every row, the best first; of equal ones the lower id comes first.
struct TopTokens {
  Tensor tokens = {};     // [rows, count] int64; -1 where there are no more
  Tensor logits = {};     // [rows, count] float32; -infinity likewise
  Tensor logsumexp = {};  // [rows] float32: log-probabilities are logits - logsumexp
};

struct TopTask {
  Tensor logits = {};          // [rows, classes]
  std::int64_t excluded = -1;  // counts in logsumexp and is never chosen; -1: none
  TopTokens top = {};
};

// How a token is drawn. In this order: logits / temperature, the top_k largest (with all that equal the last of them),
// of the probabilities that remain the fewest largest ones whose sum reaches top_p (among equal ones the lower ids),
// and of those the ones that are at least min_p times the largest.
struct SampleRule {
  double temperature = 1;
  std::int64_t top_k = 0;  // 0: all
  double top_p = 1;
  double min_p = 0;
  std::uint64_t seed = 0;
};

// Draws a token of every row: the first, in the order of ids, at which the sum of the probabilities so far exceeds
// u * their total. u is (w + 0.5) / 2^32 for the first word w of Philox4x32-7 with the seed as key and the counter
// (low, high word of the step, low, high word of the row's sequence).
struct SampleTask {
  Tensor logits = {};  // [rows, classes]
  SampleRule rule = {};
  Tensor sequences = {};  // [rows] int64
  Tensor step = {};       // [1] int64
  TopTokens top = {};     // count is 1: the token, its logit as it came, logsumexp of the logits as they came
};

// The tokens that were chosen step by step.
struct TokenHistory {
  Tensor tokens = {};  // [capacity, rows] int64
  Tensor scores = {};  // [capacity, rows] float32: log-probabilities
};

// The best token of each row becomes its newest one and is put into the history at `step`, which moves on by one, as
// every row's position does.
struct TakeBest {
  TopTokens top = {};
  Tensor newest = {};  // [rows] int64
  TokenHistory history = {};
  Tensor positions = {};  // [rows] int64
  Tensor step = {};       // [1] int64
};

// result[i] = source[indices[i]], zeros where the index is out of range.
struct GatherRows {
  Tensor source = {};   // [count, ...]
  Tensor indices = {};  // [rows] int64
  Tensor result = {};   // [rows, ...]
};

}  // namespace headway::inline v0::internal

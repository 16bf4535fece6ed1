// Decoding token by token. What changes from one step to the next, the tokens and how many there are, is read from the
// device's tensors, so that one recorded step (DeviceGraph) serves every token. Nothing here has gradients; tensors
// named as results are written in place. Indices are not looked at by the host: a row whose index is out of range
// becomes NaN.
#pragma once

#include <cstdint>
#include <optional>

#include "headway/export.h"
#include "headway/tensor.h"

namespace headway {
inline namespace v0 {

// weight[tokens] * scale + positions[position]: weight [count, features], tokens [rows] int64, positions [length,
// features], position [1] int64 -> [rows, features].
HEADWAY_API Tensor embed_step(const Tensor& weight, const Tensor& tokens, const Tensor& positions,
                              const Tensor& position, double scale = 1.0);

// The keys and values of the tokens so far. Rows that have a past in common share it: a row's token t lies in the entry
// origins[row, t].
struct TokenCache {
  Tensor keys_values;  // [entries, capacity, 2 * features]: keys, then values, each [heads, head_dim]
  Tensor origins;      // [rows, capacity] int32, at most as many rows as there are entries
};
// Attention of each row's newest token over its past and itself. projected [rows, 3 * features] has its query, key and
// value; the latter two are put into entry `row` at `position` ([1] int64, below the capacity) and are part of the past
// from then on. -> [rows, features]
HEADWAY_API Tensor self_attention_step(const Tensor& projected, const TokenCache& cache, const Tensor& position,
                                       std::int64_t heads);

// What all rows of a sentence look at.
struct SentenceMemory {
  Tensor keys_values;  // [sentences, length, 2 * features]
  Tensor lengths;      // [sentences] int64: tokens that are no padding
  Tensor sentence_of;  // [rows] int32
};
// Attention of query [rows, features] over the sentence of each row -> [rows, features].
HEADWAY_API Tensor cross_attention_step(const Tensor& query, const SentenceMemory& memory, std::int64_t heads);

// The most likely next tokens of every row, the best first; of equal ones the lower id comes first.
struct TopTokens {
  Tensor tokens;     // [rows, count] int64; -1 where there are no more
  Tensor logits;     // [rows, count] float32; -infinity likewise
  Tensor logsumexp;  // [rows] float32: log-probabilities are logits - logsumexp
};
// Fills `top` from logits [rows, classes]. A class that is excluded counts in logsumexp and is never taken.
HEADWAY_API void top_tokens(const Tensor& logits, std::optional<std::int64_t> excluded, const TopTokens& top);

// What greedy search has chosen, step by step.
struct GreedyHistory {
  Tensor tokens;  // [capacity, rows] int64
  Tensor scores;  // [capacity, rows] float32: log-probabilities
};
// Ends a step of greedy search: the best token of each row becomes its newest one ([rows] int64) and is put into the
// history at `position` ([1] int64), which then moves on by one.
HEADWAY_API void take_best(const TopTokens& top, const Tensor& newest, const GreedyHistory& history,
                           const Tensor& position);

// Rows `indices` ([rows] int64, on the source's device) of source [count, ...] -> [rows, ...], of any dtype. Indices
// out of range give rows of zeros.
HEADWAY_API Tensor gather_rows(const Tensor& source, const Tensor& indices);

}  // namespace v0
}  // namespace headway

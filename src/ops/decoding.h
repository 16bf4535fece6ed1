// Decoding token by token. The tokens and their number, which change from step to step, are read from the device's
// tensors, so that one recorded step (DeviceGraph) can be replayed for every token. Nothing here has gradients; tensors
// named as results are written in place. The host does not read indices: a row whose index is out of range becomes NaN.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/decoding_tasks.h"
#include "base/internal_api.h"
#include "headway/ops.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A weight for many products of few rows.
struct PackedWeight {
  Tensor weight;  // [out, in]
  Tensor bias;    // [out]
  Tensor packed;  // the weight as Backend::pack_weight() returns it
};
// Shares the memory of weight [out, in] and bias [out] where they are contiguous.
HEADWAY_INTERNAL_API PackedWeight pack_weight(const Tensor& weight, const Tensor& bias);

// activation(x W^T + b), or added + x W^T + b where `added` [rows, out] is given: x [rows, in] -> [rows, out].
HEADWAY_INTERNAL_API Tensor linear_step(const Tensor& x, const PackedWeight& weight,
                                        Activation activation = Activation::none, const Tensor& added = {});

// weight[tokens] * scale + positions[position]: weight [count, features], tokens [rows] int64, positions [length,
// features], position [1] int64 -> [rows, features].
HEADWAY_INTERNAL_API Tensor embed_step(const Tensor& weight, const Tensor& tokens, const Tensor& positions,
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
HEADWAY_INTERNAL_API Tensor self_attention_step(const Tensor& projected, const TokenCache& cache,
                                                const Tensor& position, std::int64_t heads);

// The keys and values of the sources, which all rows of a source share.
struct SourceMemory {
  Tensor keys_values;  // [sources, length, 2 * features]
  Tensor lengths;      // [sources] int64: non-padding tokens
  Tensor source_of;    // [rows] int32
};
// Attention of query [rows, features] over the source of each row -> [rows, features].
HEADWAY_INTERNAL_API Tensor cross_attention_step(const Tensor& query, const SourceMemory& memory, std::int64_t heads);

// Fills `top` from logits [rows, classes]. A class that is excluded counts in logsumexp and is never chosen.
HEADWAY_INTERNAL_API void top_tokens(const Tensor& logits, std::optional<std::int64_t> excluded, const TopTokens& top);

// Ends a step of greedy search: the best token of each row becomes its newest one ([rows] int64) and is put into the
// history at `position` ([1] int64), which then moves on by one.
HEADWAY_INTERNAL_API void take_best(const TopTokens& top, const Tensor& newest, const GreedyHistory& history,
                                    const Tensor& position);

// Rows `indices` ([rows] int64, on the source's device) of source [count, ...] -> [rows, ...], of any dtype. Indices
// out of range yield rows of zeros.
HEADWAY_INTERNAL_API Tensor gather_rows(const Tensor& source, const Tensor& indices);

}  // namespace headway::inline v0::internal

// Decoding token by token. The tokens and their positions, which change from step to step, are read from the device's
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
  std::int64_t outputs = 0;
  std::int64_t inputs = 0;
  Tensor weight = {};  // [outputs, inputs]; undefined where the packed one alone is read
  Tensor bias = {};    // [outputs]; undefined: none
  Tensor packed = {};  // the weight as Backend::pack_weight() returns it; undefined for 16-bit weights
  Tensor scales = {};  // [outputs] float32: of the rows of a weight in 8 bits, for x of float32; undefined for others
};
// Of weight [outputs, inputs] and bias [outputs], which may be undefined. Their memory is shared where they are
// contiguous and the device reads them as they are; 16-bit weights always are.
HEADWAY_INTERNAL_API PackedWeight pack_weight(const Tensor& weight, const Tensor& bias);

struct LinearStepOptions {
  StepNormWeights norm = {};  // of x
  Activation activation = Activation::none;
  bool gated = false;  // activation(first half of the outputs) * second half
  Tensor added = {};   // [rows, out]: added to the result
};
// activation(norm(x) W^T + b) + added: x [rows, in] -> [rows, out], or [rows, out / 2] where gated.
HEADWAY_INTERNAL_API Tensor linear_step(const Tensor& x, const PackedWeight& weight,
                                        const LinearStepOptions& options = {});
// A norm alone: x [rows, features] -> [rows, features]; x itself where there is none.
HEADWAY_INTERNAL_API Tensor norm_step(const Tensor& x, const StepNormWeights& norm);

// weight[tokens] * scale + positions[position]: weight [count, features], tokens [rows] int64, positions [length,
// features] or undefined, position [rows] int64 -> [rows, features].
HEADWAY_INTERNAL_API Tensor embed_step(const Tensor& weight, const Tensor& tokens, const Tensor& positions,
                                       const Tensor& position, double scale = 1.0);

// Puts new tokens into a cache; the queries in task.projected are normed and rotated in place.
HEADWAY_INTERNAL_API void cache_append(const CacheAppend& task);

// Attention of each row's newest token over its past and itself: appends it, then attends. Rows that have a past in
// common share it by task.origins. -> [rows, heads * head_dim]
HEADWAY_INTERNAL_API Tensor self_attention_step(const CacheAppend& task, const StepScores& scores);

// The keys and values of the sources, which all rows of a source share.
struct SourceMemory {
  Tensor keys_values;  // [sources, length, 2 * kv_heads * head_dim]
  Tensor lengths;      // [sources] int64: non-padding tokens
  Tensor source_of;    // [rows] int32
};
// Attention of query [rows, heads * head_dim] over the source of each row -> likewise.
HEADWAY_INTERNAL_API Tensor cross_attention_step(const Tensor& query, const SourceMemory& memory,
                                                 const StepScores& scores);

// Fills `top` from logits [rows, classes]. A class that is excluded counts in logsumexp and is never chosen.
HEADWAY_INTERNAL_API void top_tokens(const Tensor& logits, std::optional<std::int64_t> excluded, const TopTokens& top);

// Draws one token of every row into task.top.
HEADWAY_INTERNAL_API void sample_tokens(const SampleTask& task);

// Ends a step: the best token of each row becomes its newest one ([rows] int64) and is put into the history at `step`
// ([1] int64), which then moves on by one, as `positions` ([rows] int64) do.
HEADWAY_INTERNAL_API void take_best(const TakeBest& task);

// Rows `indices` ([rows] int64, on the source's device) of source [count, ...] -> [rows, ...], of any dtype. Indices
// out of range yield rows of zeros.
HEADWAY_INTERNAL_API Tensor gather_rows(const Tensor& source, const Tensor& indices);

}  // namespace headway::inline v0::internal

// Access to an AttentionRecord: its parts, their sizes, the layer of a drawing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "headway/attention_view.h"

namespace headway::inline v0::internal {

// Throws in `function`'s name unless every layer of the part is finite [heads, queries, keys], as many heads in each,
// and its media have as many tokens.
void check_part(const char* function, const AttentionPart& part);
// Throws unless there is a part, names differ, and every part passes check_part.
void check_record(const char* function, const AttentionRecord& record);

// The part of that name; without a name the cross-attention, or the first part where there is none. Throws an Error
// that lists the parts that exist.
const AttentionPart& part_named(const char* function, const AttentionRecord& record, const std::string& name);

// The layer of a record that a drawing shows.
struct DrawnLayer {
  const AttentionPart& part;
  std::int64_t layer;  // 0 .. layers - 1
};
// The layer that a drawing chooses; throws unless the record is valid and has that part, that layer and that head.
DrawnLayer drawn_layer(const char* function, const AttentionRecord& record, const AttentionDrawing& drawing);

inline std::int64_t query_count(const AttentionPart& part) { return static_cast<std::int64_t>(part.queries.size()); }
inline std::int64_t key_count(const AttentionPart& part) { return static_cast<std::int64_t>(part.keys.size()); }
std::int64_t head_count(const AttentionPart& part);

// A layer as float32 that lies row by row: [heads, queries, keys].
Tensor dense_layer(const AttentionPart& part, std::int64_t layer);
// The rollout that belongs to a part: of a self-attention over its own layers, of "cross" over all three parts;
// undefined where the record lacks a part that it needs.
Tensor rollout_of(const AttentionRecord& record, const AttentionPart& part);
// The largest weight in a tensor of float32, row by row.
float strongest(const Tensor& weights);

}  // namespace headway::inline v0::internal

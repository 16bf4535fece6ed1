// Attention over heads that lie side by side in the features of projected tensors.
#pragma once

#include "headway/attention.h"

namespace headway::inline v0::internal {

// Some heads in the features of a projection.
struct HeadsIn {
  Tensor source;  // [batch, length, features], or [length, batch, features] where length_first
  std::int64_t first_feature = 0;
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  bool length_first = false;

  // [batch, heads, length, head_dim] of this or another tensor of the source's shape.
  Tensor view(const Tensor& whole) const;
};

// attention() of views of projections; the heads of each source cover all its features, none twice. Its backward writes
// directly into the projections' gradients, without slicing, padding or adding, whether one tensor holds queries, keys
// and values or three do.
AttentionResult attention_of_heads(const HeadsIn& query, const HeadsIn& key, const HeadsIn& value,
                                   const AttentionOptions& options);

}  // namespace headway::inline v0::internal

// T5's relative positions: a learned number per head and bucket of distances, added to the scores.
#pragma once

#include <vector>

#include "headway/layers.h"

namespace headway::inline v0::internal {

struct RelativeBuckets {
  std::int64_t count = 32;
  std::int64_t max_distance = 128;
  bool bidirectional = true;  // false: keys after the query have the bucket of distance 0
};

// The bucket of key position - query position: near distances have one each, farther ones share.
std::int64_t relative_bucket(std::int64_t distance, const RelativeBuckets& buckets);

// [1, heads, queries, keys] from a table [buckets, heads]; queries: their positions among the keys.
Tensor relative_bias(const Embedding& table, const RelativeBuckets& buckets, const std::vector<std::int64_t>& queries,
                     std::int64_t keys);

}  // namespace headway::inline v0::internal

#include "models/relative_bias.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace headway::inline v0::internal {

std::int64_t relative_bucket(std::int64_t distance, const RelativeBuckets& buckets) {
  std::int64_t count = buckets.count, first = 0;
  if (buckets.bidirectional) {
    count /= 2;
    if (distance > 0) first = count;
    distance = std::abs(distance);
  } else {
    distance = std::max<std::int64_t>(0, -distance);
  }
  const std::int64_t exact = count / 2;
  if (distance < exact) return first + distance;
  // In float32, as the models were trained: at a border, another rounding is another bucket.
  const float ratio =
      std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
      static_cast<float>(std::log(static_cast<double>(buckets.max_distance) / static_cast<double>(exact)));
  const auto farther = static_cast<std::int64_t>(ratio * static_cast<float>(count - exact));
  return first + std::min(exact + farther, count - 1);
}

Tensor relative_bias(const Embedding& table, const RelativeBuckets& buckets, const std::vector<std::int64_t>& queries,
                     std::int64_t keys) {
  std::vector<std::int64_t> of_distance;  // from -(keys - 1) to queries' last key, which is 0 or above
  for (std::int64_t distance = 1 - keys; distance < keys; ++distance) {
    of_distance.push_back(relative_bucket(distance, buckets));
  }
  std::vector<std::int64_t> indices;  // (queries, keys)
  const std::int64_t count = std::ssize(queries);
  indices.reserve(static_cast<std::size_t>(count * keys));
  for (const std::int64_t query : queries) {
    const auto begin = of_distance.begin() + (keys - 1 - query);
    indices.insert(indices.end(), begin, begin + keys);
  }
  const Tensor values = table.forward(Tensor::from(indices, {count, keys}));  // [queries, keys, heads]
  return values.permute({2, 0, 1}).contiguous().unsqueeze(0);
}

}  // namespace headway::inline v0::internal

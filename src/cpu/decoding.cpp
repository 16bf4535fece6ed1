#include "cpu/decoding.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "core/convert.h"
#include "core/dispatch.h"
#include "core/thread_pool.h"

namespace headway::inline v0::internal::cpu {
namespace {

// What sums of T are computed in.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw_data());
}

// The keys that one row sees, each with its value: `count` pairs of addresses.
template <typename T>
struct SeenTokens {
  std::vector<const T*> rows;  // (count): keys [features], then values [features]

  SeenTokens(const CacheAttention& task, std::int64_t row) {
    const std::int64_t entries = task.cache.size(0), capacity = task.cache.size(1), width = task.cache.size(2);
    const auto* origins = data_of<const std::int32_t>(task.origins);
    const T* cache = data_of<const T>(task.cache);
    const auto add = [&](std::int64_t entry, std::int64_t token) {
      if (entry >= 0 && entry < entries) rows.push_back(cache + (entry * capacity + token) * width);
    };
    if (task.fresh.defined()) {
      const std::int64_t position = *data_of<const std::int64_t>(task.position);
      for (std::int64_t t = 0; t < std::min(position, capacity); ++t) add(origins[row * capacity + t], t);
      rows.push_back(data_of<const T>(task.fresh) + row * task.fresh.stride(0));
    } else {
      const std::int64_t entry = origins[row];
      const bool is_there = entry >= 0 && entry < entries;
      const std::int64_t length = is_there ? data_of<const std::int64_t>(task.lengths)[entry] : 0;
      for (std::int64_t t = 0; t < std::min(length, capacity); ++t) add(entry, t);
    }
  }
};

// One head of one row: result = sum of softmax(scale * query key) value.
template <typename T>
void attend_head(const T* query, const SeenTokens<T>& seen, std::int64_t first, std::int64_t features,
                 std::int64_t head_dim, T* result) {
  const Sum<T> scale = 1 / std::sqrt(static_cast<Sum<T>>(head_dim));
  std::vector<Sum<T>> weights;  // (count)
  Sum<T> largest = -std::numeric_limits<Sum<T>>::infinity();
  for (const T* token : seen.rows) {
    Sum<T> score = 0;
    for (std::int64_t d = 0; d < head_dim; ++d) score += convert<Sum<T>>(query[d]) * convert<Sum<T>>(token[first + d]);
    weights.push_back(score * scale);
    largest = std::max(largest, weights.back());
  }
  Sum<T> total = 0;
  for (Sum<T>& weight : weights) total += weight = std::exp(weight - largest);
  for (std::int64_t d = 0; d < head_dim; ++d) {
    Sum<T> sum = 0;
    for (std::size_t t = 0; t < weights.size(); ++t) {
      sum += weights[t] * convert<Sum<T>>(seen.rows[t][features + first + d]);
    }
    result[d] = convert<T>(total == 0 ? Sum<T>(0) : sum / total);
  }
}

// Puts the fresh keys and values of a row into its own entry.
template <typename T>
void append(const CacheAttention& task, std::int64_t row) {
  const std::int64_t capacity = task.cache.size(1), width = task.cache.size(2);
  const std::int64_t position = *data_of<const std::int64_t>(task.position);
  if (position < 0 || position >= capacity) return;
  const T* fresh = data_of<const T>(task.fresh) + row * task.fresh.stride(0);
  std::copy_n(fresh, width, data_of<T>(task.cache) + (row * capacity + position) * width);
  data_of<std::int32_t>(task.origins)[row * capacity + position] = static_cast<std::int32_t>(row);
}

}  // namespace

void embed_step(const EmbedStep& task) {
  const std::int64_t features = task.weight.size(1), position = *data_of<const std::int64_t>(task.position);
  dispatch_floating(task.weight.dtype(), [&]<typename T>() {
    const auto scale = static_cast<Sum<T>>(task.scale);
    for (std::int64_t row = 0; row < task.tokens.size(0); ++row) {
      const std::int64_t token = data_of<const std::int64_t>(task.tokens)[row];
      const bool is_there =
          token >= 0 && token < task.weight.size(0) && position >= 0 && position < task.positions.size(0);
      T* to = data_of<T>(task.result) + row * features;
      for (std::int64_t i = 0; i < features; ++i) {
        to[i] = convert<T>(is_there ? convert<Sum<T>>(data_of<const T>(task.weight)[token * features + i]) * scale +
                                          convert<Sum<T>>(data_of<const T>(task.positions)[position * features + i])
                                    : std::numeric_limits<Sum<T>>::quiet_NaN());
      }
    }
  });
}

void cache_attention(const CacheAttention& task) {
  const std::int64_t features = task.query.size(1), head_dim = features / task.heads;
  dispatch_floating(task.query.dtype(), [&]<typename T>() {
    parallel_for(task.query.size(0), [&](std::int64_t row, int) {
      const SeenTokens<T> seen(task, row);
      for (std::int64_t head = 0; head < task.heads; ++head) {
        const std::int64_t first = head * head_dim;
        attend_head(data_of<const T>(task.query) + row * task.query.stride(0) + first, seen, first, features, head_dim,
                    data_of<T>(task.result) + row * features + first);
      }
      // No other row looks at this token: what it shares with others lies before it.
      if (task.fresh.defined()) append<T>(task, row);
    });
  });
}

void top_tokens(const TopTask& task) {
  const std::int64_t classes = task.logits.size(1), count = task.top.tokens.size(1);
  dispatch_floating(task.logits.dtype(), [&]<typename T>() {
    parallel_for(task.logits.size(0), [&](std::int64_t row, int) {
      const T* logits = data_of<const T>(task.logits) + row * classes;
      const auto value = [&](std::int64_t i) { return convert<Sum<T>>(logits[i]); };
      Sum<T> largest = -std::numeric_limits<Sum<T>>::infinity(), sum = 0;
      std::vector<std::int64_t> ids;
      for (std::int64_t i = 0; i < classes; ++i) {
        largest = std::max(largest, value(i));
        if (i != task.excluded && value(i) > -std::numeric_limits<Sum<T>>::infinity()) ids.push_back(i);
      }
      for (std::int64_t i = 0; i < classes; ++i) sum += std::exp(value(i) - largest);
      const auto most = std::min(count, static_cast<std::int64_t>(ids.size()));
      std::partial_sort(ids.begin(), ids.begin() + most, ids.end(), [&](std::int64_t a, std::int64_t b) {
        return value(a) > value(b) || (value(a) == value(b) && a < b);
      });
      for (std::int64_t k = 0; k < count; ++k) {
        const std::int64_t id = k < most ? ids[static_cast<std::size_t>(k)] : -1;
        data_of<std::int64_t>(task.top.tokens)[row * count + k] = id;
        data_of<float>(task.top.logits)[row * count + k] =
            id < 0 ? -std::numeric_limits<float>::infinity() : static_cast<float>(value(id));
      }
      data_of<float>(task.top.logsumexp)[row] = static_cast<float>(largest + std::log(sum));
    });
  });
}

void take_best(const TakeBest& task) {
  const std::int64_t rows = task.newest.size(0), count = task.top.tokens.size(1);
  std::int64_t& position = *data_of<std::int64_t>(task.position);
  const bool has_room = position >= 0 && position < task.history.tokens.size(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = data_of<const std::int64_t>(task.top.tokens)[row * count];
    data_of<std::int64_t>(task.newest)[row] = token;
    if (!has_room) continue;
    data_of<std::int64_t>(task.history.tokens)[position * rows + row] = token;
    data_of<float>(task.history.scores)[position * rows + row] =
        data_of<const float>(task.top.logits)[row * count] - data_of<const float>(task.top.logsumexp)[row];
  }
  ++position;
}

void gather_rows(const GatherRows& task) {
  const std::int64_t count = task.source.size(0), rows = task.indices.size(0);
  if (task.result.element_count() == 0) return;
  const std::size_t bytes =
      static_cast<std::size_t>(task.result.element_count() / rows) * item_size(task.source.dtype());
  const auto* from = data_of<const std::byte>(task.source);
  auto* to = data_of<std::byte>(task.result);
  for (std::int64_t row = 0; row < rows; ++row, to += bytes) {
    const std::int64_t index = data_of<const std::int64_t>(task.indices)[row];
    if (index >= 0 && index < count) {
      std::memcpy(to, from + static_cast<std::size_t>(index) * bytes, bytes);
    } else {
      std::memset(to, 0, bytes);
    }
  }
}

}  // namespace headway::inline v0::internal::cpu

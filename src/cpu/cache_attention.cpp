// Attention over a cache: new tokens are normed, rotated and appended, then every row attends to what it sees.
#include <algorithm>
#include <cstring>
#include <memory>

#include "base/divide.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"
#include "cpu/tensor_data.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr int kCacheSlot = 0;
constexpr std::int64_t kAppendedRows = 8;                    // of a task
constexpr std::int64_t kAttentionTasks = 8;                  // enough to keep threads evenly busy
constexpr std::int64_t kSharedWork = std::int64_t{1} << 15;  // features of all tokens that are worth a second thread
constexpr std::size_t kMostKept = std::size_t{8} << 20;      // scratch that stays with the thread

// The rows of a cache, in bytes.
class CacheView {
 public:
  explicit CacheView(const Tensor& cache)
      : data_(tensor_data<std::byte>(cache)),
        entries_(cache.size(0)),
        capacity_(cache.size(1)),
        width_(cache.size(2) * static_cast<std::int64_t>(item_size(cache.dtype()))) {}

  std::int64_t capacity() const { return capacity_; }
  bool has(std::int64_t entry) const { return entry >= 0 && entry < entries_; }
  std::byte* token(std::int64_t entry, std::int64_t t) const { return data_ + (entry * capacity_ + t) * width_; }

 private:
  std::byte* data_;
  std::int64_t entries_, capacity_;
  std::int64_t width_;  // bytes of a token's keys and values
};

void append_row(const CacheAppend& task, const CacheView& cache, std::int64_t row) {
  const auto bytes = static_cast<std::int64_t>(item_size(task.projected.dtype())) * task.head_dim;
  const std::int64_t position = tensor_data<const std::int64_t>(task.positions)[row];
  const std::int64_t entry = task.entries.defined() ? tensor_data<const std::int32_t>(task.entries)[row] : row;
  const bool is_inside = cache.has(entry) && position >= 0 && position < cache.capacity();
  alignas(64) std::byte stack[256 * sizeof(double)];
  HeadRowTask heads = {.dtype = task.projected.dtype(),
                       .heads = task.heads,
                       .head_dim = task.head_dim,
                       .norm_epsilon = task.norm_epsilon,
                       .interleaved = task.interleaved};
  heads.workspace = task.head_dim <= 256
                        ? stack
                        : thread_scratch(kCacheSlot, static_cast<std::size_t>(task.head_dim) * sizeof(double));
  bool changes = task.query_norm.defined();
  if (task.rotation.defined() && position >= 0 && position < task.rotation.size(0)) {
    heads.dims = task.rotation.size(1);
    heads.rotation = tensor_data<const float>(task.rotation) + position * heads.dims;
    changes = true;
  }
  std::byte* query = row_of(task.projected, row);
  std::byte* key = query + task.heads * bytes;
  if (changes) {
    heads.source = heads.target = query;
    if (task.query_norm.defined()) heads.norm_weight = tensor_data<std::byte>(task.query_norm);
    decoding_kernels().head_row(heads);
    heads.heads = task.kv_heads;
    heads.source = heads.target = key;
    if (task.key_norm.defined()) heads.norm_weight = tensor_data<std::byte>(task.key_norm);
    decoding_kernels().head_row(heads);
  }
  if (!is_inside) return;
  std::memcpy(cache.token(entry, position), key, static_cast<std::size_t>(2 * task.kv_heads * bytes));
  if (task.origins.defined()) {
    tensor_data<std::int32_t>(task.origins)[row * cache.capacity() + position] = static_cast<std::int32_t>(entry);
  }
}

// Where the tokens are that one row sees.
class RowTokens {
 public:
  RowTokens(const CacheAttention& task, const CacheView& cache, std::int64_t row) : cache_(cache) {
    const auto* origins = tensor_data<const std::int32_t>(task.origins);
    if (task.append.projected.defined()) {
      const std::int64_t position = tensor_data<const std::int64_t>(task.append.positions)[row];
      origins_ = origins + row * cache.capacity();
      end_ = std::clamp<std::int64_t>(position + 1, 0, cache.capacity());
      if (task.scores.window >= 0) first_ = std::clamp<std::int64_t>(position - task.scores.window, 0, end_);
    } else if (const std::int64_t entry = origins[row]; cache.has(entry)) {
      entry_ = entry;
      end_ = std::clamp<std::int64_t>(tensor_data<const std::int64_t>(task.lengths)[entry], 0, cache.capacity());
    }
  }

  std::int64_t count() const { return end_ - first_; }

  // Fills `tokens` (count); returns how many there are, fewer where an origin is out of range.
  std::int64_t collect(const std::byte** tokens) const {
    const std::byte** next = tokens;
    for (std::int64_t t = first_; t < end_; ++t) {
      const std::int64_t entry = origins_ ? origins_[t] : entry_;
      if (cache_.has(entry)) *next++ = cache_.token(entry, t);
    }
    return next - tokens;
  }

 private:
  const CacheView& cache_;
  const std::int32_t* origins_ = nullptr;  // of the row
  std::int64_t entry_ = 0;
  std::int64_t first_ = 0, end_ = 0;
};

// The attention of one row for key/value heads [first, end).
void attend(const CacheAttention& task, const CacheView& cache, std::int64_t row, std::int64_t first,
            std::int64_t end) {
  const StepScores& scores = task.scores;
  const std::int64_t group = scores.heads / scores.kv_heads, head = first * group;
  const RowTokens row_tokens(task, cache, row);
  const std::size_t workspace = token_attention_workspace((end - first) * group, scores.head_dim, row_tokens.count());
  const std::size_t bytes = workspace + static_cast<std::size_t>(row_tokens.count()) * sizeof(std::byte*);
  const std::unique_ptr<ScratchBuffer> large = bytes > kMostKept ? std::make_unique<ScratchBuffer>(bytes) : nullptr;
  std::byte* memory = large ? large->data() : thread_scratch(kCacheSlot, bytes);
  const auto** tokens = reinterpret_cast<const std::byte**>(memory + workspace);
  const Tensor& queries = task.append.projected.defined() ? task.append.projected : task.query;
  const auto head_bytes = static_cast<std::int64_t>(item_size(queries.dtype())) * scores.head_dim;
  const auto of_head = [&](const Tensor& tensor, std::int64_t size) {
    return tensor.defined() ? tensor_data<const float>(tensor) + head * size : nullptr;
  };
  const std::int64_t distances = scores.distance_bias.defined() ? scores.distance_bias.size(1) : 0;
  decoding_kernels().token_attention({.dtype = queries.dtype(),
                                      .group = group,
                                      .kv_heads = end - first,
                                      .head_dim = scores.head_dim,
                                      .value_offset = scores.kv_heads * scores.head_dim,
                                      .count = row_tokens.collect(tokens),
                                      .query = row_of(queries, row) + head * head_bytes,
                                      .tokens = tokens,
                                      .key_offset = first * scores.head_dim,
                                      .scale = scores.scale,
                                      .softcap = scores.softcap,
                                      .alibi_slopes = of_head(scores.alibi_slopes, 1),
                                      .distance_bias = of_head(scores.distance_bias, distances),
                                      .distances = distances,
                                      .sinks = of_head(scores.sinks, 1),
                                      .result = row_of(task.result, row) + head * head_bytes,
                                      .workspace = memory});
}

}  // namespace

void CpuBackend::cache_append(const CacheAppend& task) {
  const CacheView cache(task.cache);
  const std::int64_t rows = task.projected.size(0);
  parallel_for(divide_up(rows, kAppendedRows), [&](std::int64_t chunk, int) {
    const std::int64_t end = std::min((chunk + 1) * kAppendedRows, rows);
    for (std::int64_t row = chunk * kAppendedRows; row < end; ++row) append_row(task, cache, row);
  });
}

void CpuBackend::cache_attention(const CacheAttention& task) {
  if (task.append.projected.defined()) cache_append(task.append);
  const CacheView cache(task.cache);
  const std::int64_t rows = task.result.size(0), kv_heads = task.scores.kv_heads;
  if (rows == 0) return;
  // Heads of one row are shared out where rows are few and pasts long; their bits do not depend on it.
  std::int64_t longest = 0;
  for (std::int64_t row = 0; row < rows; ++row) longest = std::max(longest, RowTokens(task, cache, row).count());
  const bool shares = rows < kAttentionTasks && longest * task.cache.size(2) >= kSharedWork;
  const std::int64_t parts = shares ? std::min(kv_heads, divide_up(kAttentionTasks, rows)) : 1;
  const std::int64_t heads = divide_up(kv_heads, parts);
  const std::int64_t tasks = divide_up(kv_heads, heads);
  parallel_for(rows * tasks, [&](std::int64_t index, int) {
    const std::int64_t first = index % tasks * heads;
    attend(task, cache, index / tasks, first, std::min(first + heads, kv_heads));
  });
}

}  // namespace headway::inline v0::internal::cpu

// Steps of decoding, one row after the other.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "base/divide.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "core/scratch.h"
#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"

namespace headway::inline v0::internal::cpu {
namespace {

// The type in which sums of T are computed.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
T* data_of(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw_data());
}

constexpr int kSlot = 0;

// The rows of a cache and of what is new, in bytes.
class CacheView {
 public:
  explicit CacheView(const CacheAttention& task)
      : task_(task),
        entries_(task.cache.size(0)),
        capacity_(task.cache.size(1)),
        item_bytes_(static_cast<std::int64_t>(item_size(task.cache.dtype()))),
        width_(task.cache.size(2) * item_bytes_) {}

  // Fills `tokens`, of one more than the capacity, with what row `row` sees; returns their number.
  std::int64_t collect(std::int64_t row, const std::byte** tokens) const {
    const std::byte** next = tokens;
    const auto* origins = data_of<const std::int32_t>(task_.origins);
    if (task_.fresh.defined()) {
      const std::int64_t count = std::min(*data_of<const std::int64_t>(task_.position), capacity_);
      for (std::int64_t t = 0; t < count; ++t) {
        const std::int64_t entry = origins[row * capacity_ + t];
        if (has(entry)) *next++ = token(entry, t);
      }
      *next++ = fresh(row);
    } else if (const std::int64_t entry = origins[row]; has(entry)) {
      const std::int64_t count = std::min(data_of<const std::int64_t>(task_.lengths)[entry], capacity_);
      for (std::int64_t t = 0; t < count; ++t) *next++ = token(entry, t);
    }
    return next - tokens;
  }

  // Puts the fresh keys and values of a row into its own entry.
  void append(std::int64_t row) const {
    const std::int64_t position = *data_of<const std::int64_t>(task_.position);
    if (position < 0 || position >= capacity_) return;
    std::memcpy(token(row, position), fresh(row), static_cast<std::size_t>(width_));
    data_of<std::int32_t>(task_.origins)[row * capacity_ + position] = static_cast<std::int32_t>(row);
  }

  std::int64_t capacity() const { return capacity_; }
  // Row `row` of a matrix whose rows have any stride.
  std::byte* row_of(const Tensor& matrix, std::int64_t row) const {
    return data_of<std::byte>(matrix) + row * matrix.stride(0) * item_bytes_;
  }

 private:
  bool has(std::int64_t entry) const { return entry >= 0 && entry < entries_; }
  std::byte* token(std::int64_t entry, std::int64_t t) const {
    return data_of<std::byte>(task_.cache) + (entry * capacity_ + t) * width_;
  }
  const std::byte* fresh(std::int64_t row) const { return row_of(task_.fresh, row); }

  const CacheAttention& task_;
  std::int64_t entries_, capacity_;
  std::int64_t item_bytes_;
  std::int64_t width_;  // bytes of a token's keys and values
};

// The best tokens of one row, in ascending order of their rank.
template <typename Real>
class BestTokens {
 public:
  struct Entry {
    Real logit;
    std::int64_t token;
  };

  BestTokens(Entry* entries, std::int64_t most) : entries_(entries), most_(most) {}

  std::int64_t count() const { return count_; }
  const Entry& operator[](std::int64_t rank) const { return entries_[rank]; }
  // Whether a logit of a token that comes after all others would be taken.
  bool takes(Real logit) const {
    if (count_ < most_) return logit > -std::numeric_limits<Real>::infinity();
    return most_ > 0 && logit > entries_[count_ - 1].logit;
  }
  void add(const Entry& entry) {
    std::int64_t rank = count_ < most_ ? count_++ : count_ - 1;
    for (; rank > 0 && entries_[rank - 1].logit < entry.logit; --rank) entries_[rank] = entries_[rank - 1];
    entries_[rank] = entry;
  }

 private:
  Entry* entries_;  // (most)
  std::int64_t most_;
  std::int64_t count_ = 0;
};

template <typename T>
void top_row(const TopTask& task, std::int64_t row) {
  using Real = Sum<T>;
  const std::int64_t classes = task.logits.size(1), count = task.top.tokens.size(1);
  const std::int64_t blocks = divide_up(classes, kLogitBlock);
  using Best = BestTokens<Real>;
  const auto entries_bytes = static_cast<std::size_t>(count) * sizeof(typename Best::Entry);
  std::byte* memory = thread_scratch(kSlot, entries_bytes + static_cast<std::size_t>(blocks) * sizeof(Real));
  Best best(reinterpret_cast<typename Best::Entry*>(memory), count);
  Real* maxima = reinterpret_cast<Real*>(memory + entries_bytes);
  Real logsumexp = 0;
  const T* logits = data_of<const T>(task.logits) + row * classes;
  decoding_kernels().logit_row({.dtype = task.logits.dtype(),
                                .classes = classes,
                                .logits = reinterpret_cast<const std::byte*>(logits),
                                .maxima = maxima,
                                .logsumexp = &logsumexp});
  for (std::int64_t block = 0; block < blocks; ++block) {
    if (!best.takes(maxima[block])) continue;
    const std::int64_t end = std::min((block + 1) * kLogitBlock, classes);
    for (std::int64_t i = block * kLogitBlock; i < end; ++i) {
      const Real logit = convert<Real>(logits[i]);
      if (best.takes(logit) && i != task.excluded) best.add({logit, i});
    }
  }
  for (std::int64_t k = 0; k < count; ++k) {
    const bool is_there = k < best.count();
    data_of<std::int64_t>(task.top.tokens)[row * count + k] = is_there ? best[k].token : -1;
    data_of<float>(task.top.logits)[row * count + k] =
        is_there ? static_cast<float>(best[k].logit) : -std::numeric_limits<float>::infinity();
  }
  data_of<float>(task.top.logsumexp)[row] = static_cast<float>(logsumexp);
}

}  // namespace

void CpuBackend::embed_step(const EmbedStep& task) {
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

void CpuBackend::cache_attention(const CacheAttention& task) {
  const CacheView view(task);
  const std::int64_t features = task.query.size(1);
  const std::int64_t most = view.capacity() + 1;
  const std::size_t workspace = token_attention_workspace(features, most);
  parallel_for(task.query.size(0), [&](std::int64_t row, int) {
    std::byte* memory = thread_scratch(kSlot, workspace + static_cast<std::size_t>(most) * sizeof(std::byte*));
    const auto** tokens = reinterpret_cast<const std::byte**>(memory + workspace);
    const std::int64_t count = view.collect(row, tokens);
    decoding_kernels().token_attention({.dtype = task.query.dtype(),
                                        .heads = task.heads,
                                        .head_dim = features / task.heads,
                                        .count = count,
                                        .query = view.row_of(task.query, row),
                                        .tokens = tokens,
                                        .result = view.row_of(task.result, row),
                                        .workspace = memory});
    // No other row reads this token: the tokens that it shares with others come before it.
    if (task.fresh.defined()) view.append(row);
  });
}

void CpuBackend::top_tokens(const TopTask& task) {
  dispatch_floating(task.logits.dtype(), [&]<typename T>() {
    parallel_for(task.logits.size(0), [&](std::int64_t row, int) { top_row<T>(task, row); });
  });
}

void CpuBackend::take_best(const TakeBest& task) {
  const std::int64_t rows = task.newest.size(0), count = task.top.tokens.size(1);
  std::int64_t& position = *data_of<std::int64_t>(task.position);
  const bool is_inside = position >= 0 && position < task.history.tokens.size(0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t token = data_of<const std::int64_t>(task.top.tokens)[row * count];
    data_of<std::int64_t>(task.newest)[row] = token;
    if (!is_inside) continue;
    data_of<std::int64_t>(task.history.tokens)[position * rows + row] = token;
    data_of<float>(task.history.scores)[position * rows + row] =
        data_of<const float>(task.top.logits)[row * count] - data_of<const float>(task.top.logsumexp)[row];
  }
  ++position;
}

void CpuBackend::gather_rows(const GatherRows& task) {
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

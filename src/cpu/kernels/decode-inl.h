// Few queries over many keys: keys and values are read once, where they lie, by every row at the same time.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/dropout-inl.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/scores-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// The sums of the lanes of four vectors.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void sum_of_four(D d, V a, V b, V c, V e, hn::TFromD<D>* target) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::RepartitionToWide<D> wide;
    const V ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
    const V ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
    const V low = hn::BitCast(d, hn::InterleaveLower(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce)));
    const V high = hn::BitCast(d, hn::InterleaveUpper(wide, hn::BitCast(wide, ab), hn::BitCast(wide, ce)));
    const V blocks = hn::Add(low, high);  // every 128-bit block: parts of the four sums
#if HWY_TARGET <= HWY_AVX3
    const hn::Half<D> half;
    const hn::Half<decltype(half)> quarter;
    const auto two = hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks));
    hn::StoreU(hn::Add(hn::LowerHalf(quarter, two), hn::UpperHalf(quarter, two)), quarter, target);
#elif HWY_TARGET == HWY_AVX2
    const hn::Half<D> half;
    hn::StoreU(hn::Add(hn::LowerHalf(half, blocks), hn::UpperHalf(half, blocks)), half, target);
#else
    hn::StoreU(blocks, d, target);
#endif
  } else {
    target[0] = hn::GetLane(hn::SumOfLanes(d, a));
    target[1] = hn::GetLane(hn::SumOfLanes(d, b));
    target[2] = hn::GetLane(hn::SumOfLanes(d, c));
    target[3] = hn::GetLane(hn::SumOfLanes(d, e));
  }
}

template <typename E>
class Decode {
  using Real = RealOf<E>;
  using D = VectorTag<E>;
  using V = VectorOf<E>;
  static constexpr int kLane = hn::MaxLanes(D());
  static constexpr int kRows = 4;                    // rows that share a pass over the keys
  static constexpr std::int64_t kSubBlock = 32;      // keys between two passes
  static constexpr std::int64_t kPrefetchRows = 16;  // ahead of the one that is read

 public:
  static std::size_t workspace_bytes(std::int64_t head_dim, std::int64_t value_dim) {
    return sizeof(Real) *
               (kDecodeRows * (round_up(head_dim, kLane) + kDecodeKeys + round_up(value_dim, kLane)) + kDecodeKeys) +
           kDecodeKeys;
  }

  Decode(const DecodeTask& task, std::byte* workspace)
      : task_(task), depth_(round_up(task.head_dim, kLane)), columns_(round_up(task.value_dim, kLane)) {
    queries_ = reinterpret_cast<Real*>(workspace);
    scores_ = queries_ + kDecodeRows * depth_;
    bias_ = scores_ + kDecodeRows * kDecodeKeys;
    output_ = bias_ + kDecodeKeys;
    keep_ = reinterpret_cast<std::uint8_t*>(output_ + kDecodeRows * columns_);
  }

  void run() {
    const std::int64_t rows = round_up(task_.row_count, kRows);
    const Real factor = static_cast<Real>(task_.scale * kLog2E);
    for (std::int64_t r = 0; r < rows; ++r) {
      if (r < task_.row_count) {
        read_row<Real>(task_.queries[r], 0, task_.head_dim, depth_, factor, queries_ + r * depth_);
      } else {
        std::fill_n(queries_ + r * depth_, depth_, Real(0));
      }
    }
    for (std::int64_t r = 0; r < rows; r += kRows) {
      if (score_pairs(r)) continue;
      with_type<Real>(task_.keys, [&](const auto* keys) HWY_ATTR { score(keys, r); });
    }
    for (std::int64_t r = 0; r < task_.row_count; ++r) softmax(r);
    for (std::int64_t r = task_.row_count; r < rows; ++r) std::fill_n(scores_ + r * kDecodeKeys, kDecodeKeys, Real(0));
    std::fill_n(output_, rows * columns_, Real(0));
    with_type<Real>(task_.values, [&](const auto* values) HWY_ATTR {
      for (std::int64_t r = 0; r < rows; r += kRows) add_values(values, r);
    });
    finish();
  }

 private:
  // scores[r][k] = Q K^T for rows r .. r + 3. Every key is read from end to end before the next, for sequential access.
  template <typename In>
  HWY_INLINE void score(const In* keys, std::int64_t r) {
    const D d;
    const std::int64_t whole = task_.head_dim / kLane * kLane;
    const Real* q = queries_ + r * depth_;
    for (std::int64_t k = task_.key_begin; k < task_.key_end; ++k) {
      const In* key = keys + k * task_.keys.stride;
      V sum[kRows];
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) sum[j] = hn::Zero(d);
      for (std::int64_t c = 0; c < whole; c += kLane) {
        __builtin_prefetch(key + c + kPrefetchRows * task_.keys.stride, 0, 1);
        const V x = load_converted(d, key + c);
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) sum[j] = hn::MulAdd(x, hn::Load(d, q + j * depth_ + c), sum[j]);
      }
      Real four[4];
      sum_of_four(d, sum[0], sum[1], sum[2], sum[3], four);
      finish_scores(key, q, whole, four);
      for (int j = 0; j < kRows; ++j) scores_[(r + j) * kDecodeKeys + k - task_.key_begin] = four[j];
    }
  }

  // The same with bf16 dot products, where there are some and the keys fill whole vectors; false elsewhere.
  HWY_INLINE bool score_pairs([[maybe_unused]] std::int64_t r) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
    constexpr std::int64_t kStep = 2 * kLane;  // values in a vector of pairs
    if (task_.head_dim % kStep != 0) return false;
    const bfloat16* queries[kRows];
    for (int j = 0; j < kRows; ++j) {
      const std::int64_t row = std::min(r + j, task_.row_count - 1);
      queries[j] = reinterpret_cast<const bfloat16*>(task_.queries[row].data);
    }
    const D d;
    const Real factor = static_cast<Real>(task_.scale * kLog2E);
    for (std::int64_t k = task_.key_begin; k < task_.key_end; ++k) {
      const bfloat16* key = reinterpret_cast<const bfloat16*>(task_.keys.data) + k * task_.keys.stride;
      V sum[kRows];
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) sum[j] = hn::Zero(d);
      for (std::int64_t c = 0; c < task_.head_dim; c += kStep) {
        __builtin_prefetch(key + c + kPrefetchRows * task_.keys.stride, 0, 1);
        const __m512bh x = (__m512bh)_mm512_loadu_si512(key + c);
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) {
          sum[j] = V{_mm512_dpbf16_ps(sum[j].raw, (__m512bh)_mm512_loadu_si512(queries[j] + c), x)};
        }
      }
      Real four[4];
      sum_of_four(d, sum[0], sum[1], sum[2], sum[3], four);
      for (int j = 0; j < kRows; ++j) scores_[(r + j) * kDecodeKeys + k - task_.key_begin] = four[j] * factor;
    }
    return true;
#else
    return false;
#endif
  }

  // The columns past the last whole vector.
  template <typename In>
  HWY_INLINE void finish_scores(const In* key, const Real* q, std::int64_t begin, Real (&four)[4]) {
    for (std::int64_t c = begin; c < task_.head_dim; ++c) {
      const Real x = convert<Real>(key[c]);
      for (int j = 0; j < kRows; ++j) four[j] += x * q[j * depth_ + c];
    }
  }

  // Scores to probabilities of one row; keeps the maximum and the sum.
  void softmax(std::int64_t r) {
    const D d;
    const ScoreRule& rule = *task_.rules[r];
    const ScoreModifier<Real> modifier(rule);
    const std::int64_t begin = task_.key_begin, count = task_.key_end - begin;
    const std::int64_t padded = round_up(count, kLane);
    const std::int64_t query = task_.positions[r];
    const std::int64_t first = rule.first_key(query), end = rule.end_key(query);
    if (modifier.has_bias()) modifier.bias_row(query, begin, task_.key_end, padded, bias_);
    Real* scores = scores_ + r * kDecodeKeys;
    V maximum = hn::Set(d, kMasked<Real>);
    auto nan = hn::IsNaN(maximum);
    for (std::int64_t c = 0; c < padded; c += kLane) {
      V s = modifier.cap(d, hn::Load(d, scores + c));
      const Real distance = static_cast<Real>(begin + c - query - rule.query_offset);
      s = modifier.add_bias(d, s, distance, modifier.has_bias() ? bias_ + c : nullptr);
      s = hn::IfThenElse(visible(d, begin + c, first, std::min(end, task_.key_end)), s, hn::Set(d, kMasked<Real>));
      hn::Store(s, d, scores + c);
      nan = hn::Or(nan, hn::IsNaN(s));
      maximum = hn::Max(maximum, s);
    }
    // A NaN may or may not survive Max. Any reference will do then: the row shows it through its probability.
    const Real m = hn::AllFalse(d, nan) ? hn::GetLane(hn::MaxOfLanes(d, maximum)) : Real(0);
    maximum_[r] = m;
    V sum = hn::Zero(d);
    for (std::int64_t c = 0; c < padded; c += kLane) {
      const V p = m == kMasked<Real> ? hn::Zero(d) : exp2(d, hn::Sub(hn::Load(d, scores + c), hn::Set(d, m)));
      sum = hn::Add(sum, p);
      hn::Store(p, d, scores + c);
    }
    total_[r] = hn::GetLane(hn::SumOfLanes(d, sum));
    if (rule.dropout.threshold) drop(rule, query, count, scores);
  }

  void drop(const ScoreRule& rule, std::int64_t query, std::int64_t count, Real* scores) {
    fill_keep(rule, query, query + 1, task_.key_begin, task_.key_end, keep_, kDecodeKeys);
    for (std::int64_t k = 0; k < count; ++k) {
      scores[k] = keep_[k] ? scores[k] * static_cast<Real>(rule.dropout.scale) : Real(0);
    }
  }

  // output[r .. r + 3] += P V. A few keys at a time, so that every pass but the first finds their values in the L1
  // cache. A pass takes whole rows of values for two rows of the output; values that must be converted are worth more
  // rows.
  template <typename In>
  HWY_INLINE void add_values(const In* values, std::int64_t r) {
    constexpr int kPassRows = sizeof(In) < sizeof(Real) ? 4 : 2;
    for (std::int64_t k = task_.key_begin; k < task_.key_end; k += kSubBlock) {
      const std::int64_t end = std::min(k + kSubBlock, task_.key_end);
      for (std::int64_t j = r; j < r + kRows; j += kPassRows) add_block<kPassRows>(values, j, k, end);
    }
  }

  template <int kPassRows, typename In>
  HWY_INLINE void add_block(const In* values, std::int64_t r, std::int64_t begin, std::int64_t end) {
    constexpr int kVectors = (kTileRows == 8 ? 16 : 8) / kPassRows;  // sums that stay in registers
    const std::int64_t whole = task_.value_dim / kLane * kLane;
    std::int64_t c = 0;
    for (; c + kVectors * kLane <= whole; c += kVectors * kLane) {
      add_columns<kPassRows, kVectors>(values + c, r, c, begin, end);
    }
    for (; c < whole; c += kLane) add_columns<kPassRows, 1>(values + c, r, c, begin, end);
    for (; c < task_.value_dim; ++c) {
      for (int j = 0; j < kPassRows; ++j) {
        Real sum = output_[(r + j) * columns_ + c];
        for (std::int64_t k = begin; k < end; ++k) {
          sum +=
              scores_[(r + j) * kDecodeKeys + k - task_.key_begin] * convert<Real>(values[k * task_.values.stride + c]);
        }
        output_[(r + j) * columns_ + c] = sum;
      }
    }
  }

  template <int kPassRows, int kCount, typename In>
  HWY_INLINE void add_columns(const In* values, std::int64_t r, std::int64_t c, std::int64_t begin, std::int64_t end) {
    const D d;
    V sum[kPassRows][kCount];
#pragma GCC unroll 4
    for (int j = 0; j < kPassRows; ++j) {
#pragma GCC unroll 8
      for (int v = 0; v < kCount; ++v) sum[j][v] = hn::Load(d, output_ + (r + j) * columns_ + c + v * kLane);
    }
    const Real* p = scores_ + r * kDecodeKeys - task_.key_begin;
    for (std::int64_t k = begin; k < end; ++k) {
      const In* row = values + k * task_.values.stride;
      V x[kCount];
#pragma GCC unroll 8
      for (int v = 0; v < kCount; ++v) {
        __builtin_prefetch(row + v * kLane + kPrefetchRows * task_.values.stride, 0, 1);
        x[v] = load_converted(d, row + v * kLane);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kPassRows; ++j) {
        const V pj = hn::Set(d, p[j * kDecodeKeys + k]);
#pragma GCC unroll 8
        for (int v = 0; v < kCount; ++v) sum[j][v] = hn::MulAdd(pj, x[v], sum[j][v]);
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kPassRows; ++j) {
#pragma GCC unroll 8
      for (int v = 0; v < kCount; ++v) hn::Store(sum[j][v], d, output_ + (r + j) * columns_ + c + v * kLane);
    }
  }

  // A value behind a mask may not be finite: those rows are summed again without the keys of zero probability.
  template <typename In>
  void add_values_carefully(const In* values, std::int64_t r) {
    Real* output = output_ + r * columns_;
    std::fill_n(output, columns_, Real(0));
    for (std::int64_t k = task_.key_begin; k < task_.key_end; ++k) {
      const Real p = scores_[r * kDecodeKeys + k - task_.key_begin];
      if (p == 0) continue;
      for (std::int64_t c = 0; c < task_.value_dim; ++c) {
        output[c] += p * convert<Real>(values[k * task_.values.stride + c]);
      }
    }
  }

  void finish() {
    Real* partial = static_cast<Real*>(task_.partial);
    for (std::int64_t r = 0; r < task_.row_count; ++r) {
      Real* output = output_ + r * columns_;
      Real difference = 0;
      for (std::int64_t c = 0; c < task_.value_dim; ++c) difference += output[c] - output[c];
      if (difference != 0) {  // NaN
        with_type<Real>(task_.values, [&](const auto* values) HWY_ATTR { add_values_carefully(values, r); });
      }
      std::copy_n(output, task_.value_dim, partial);
      partial[task_.value_dim] = maximum_[r];
      partial[task_.value_dim + 1] = total_[r];
      partial += task_.value_dim + 2;
    }
  }

  const DecodeTask& task_;
  const std::int64_t depth_;    // head_dim to whole vectors
  const std::int64_t columns_;  // value_dim to whole vectors
  Real* queries_;               // (kDecodeRows, depth), scaled
  Real* scores_;                // (kDecodeRows, kDecodeKeys)
  Real* bias_;                  // (kDecodeKeys)
  Real* output_;                // (kDecodeRows, columns)
  std::uint8_t* keep_;          // (kDecodeKeys)
  Real maximum_[kDecodeRows];
  Real total_[kDecodeRows];
};

// output = sum of the parts, each scaled to the common maximum; logsumexp beside it.
template <typename Real>
void combine_parts(const CombineTask& task, Real* HWY_RESTRICT output) {
  const Real* parts = static_cast<const Real*>(task.partials);
  const Real sink = task.has_sink ? static_cast<Real>(task.sink * kLog2E) : kMasked<Real>;
  Real m = sink;
  for (std::int64_t i = 0; i < task.part_count; ++i) m = std::max(m, parts[i * task.part_stride + task.value_dim]);
  std::fill_n(output, task.value_dim, Real(0));
  Real total = m == kMasked<Real> ? Real(0) : std::exp2(sink - m);
  for (std::int64_t i = 0; i < task.part_count; ++i) {
    const Real* part = parts + i * task.part_stride;
    if (part[task.value_dim] == kMasked<Real>) continue;
    const Real factor = std::exp2(part[task.value_dim] - m);
    total += factor * part[task.value_dim + 1];
    for (std::int64_t c = 0; c < task.value_dim; ++c) output[c] += factor * part[c];
  }
  const Real normalizer = total == 0 ? Real(0) : Real(1) / total;
  write_row(output, task.output, 0, 0, task.value_dim, normalizer);
  *static_cast<Real*>(task.logsumexp) =
      total == 0 ? kMasked<Real> : static_cast<Real>(m * static_cast<Real>(kLn2) + std::log(total));
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

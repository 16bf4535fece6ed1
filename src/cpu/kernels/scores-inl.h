// From Q K^T to the input of the softmax: softcap, ALiBi, bias, mask and the limits of causal, window and key lengths.
// All scores are in base 2: log2(e) is folded into the scale, and bias, ALiBi and softcap are scaled to match.
#pragma once

#include <cmath>

#include "cpu/kernels/attention.h"
#include "cpu/kernels/math-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// The visible keys of a block of kTileRows queries; rows past the last query repeat its limits.
struct RowLimits {
  std::int64_t first[kTileRows];
  std::int64_t end[kTileRows];
  std::int64_t min_first, max_first, min_end, max_end;

  RowLimits(const ScoreRule& rule, std::int64_t query, std::int64_t query_end) {
    min_first = min_end = kUnlimited;
    max_first = max_end = 0;
    for (int r = 0; r < kTileRows; ++r) {
      const std::int64_t q = std::min(query + r, query_end - 1);
      first[r] = rule.first_key(q);
      end[r] = std::max(rule.end_key(q), first[r]);
      min_first = std::min(min_first, first[r]);
      max_first = std::max(max_first, first[r]);
      min_end = std::min(min_end, end[r]);
      max_end = std::max(max_end, end[r]);
    }
  }
  // True when all rows see all of the columns [begin, end).
  bool all_see(std::int64_t begin, std::int64_t past) const { return begin >= max_first && past <= min_end; }
};

// The mask of the lanes at columns [column, column + lanes) that lie in [first, end).
template <class D>
HWY_INLINE hn::Mask<D> visible(D d, std::int64_t column, std::int64_t first, std::int64_t end) {
  const std::int64_t lanes = hn::Lanes(d);
  const auto below_end = hn::FirstN(d, static_cast<std::size_t>(std::clamp<std::int64_t>(end - column, 0, lanes)));
  if (first <= column) return below_end;
  const auto below_first = hn::FirstN(d, static_cast<std::size_t>(std::min(first - column, lanes)));
  return hn::AndNot(below_first, below_end);
}

// Copies queries [query, query + kTileRows) into (strips, kTileRows, tile columns), zeros past query_end.
template <typename E>
void copy_query_block(const Rows& rows, std::int64_t query, std::int64_t query_end, std::int64_t dim,
                      E* HWY_RESTRICT target) {
  constexpr int kStrip = kTileColumns<E>;
  constexpr std::int64_t kWidth = kStrip * Arithmetic<E>::kValues;
  const std::int64_t present = std::min<std::int64_t>(kTileRows, query_end - query);
  with_source<E>(rows, [&](const auto* source) HWY_ATTR {
    source += query * rows.stride;
    for (std::int64_t c = 0; c < dim; c += kWidth, target += kTileRows * kStrip) {
      const std::int64_t width = std::min(kWidth, dim - c);
      if (present < kTileRows || width < kWidth) std::memset(target, 0, kTileRows * kStrip * sizeof(E));
      for (std::int64_t r = 0; r < present; ++r) {
        const auto* from = source + r * rows.stride + c;
        E* to = target + r * kStrip;
        if constexpr (std::is_same_v<E, Bf16Pair>) {
          std::memcpy(to, from, static_cast<std::size_t>(width) * sizeof(bfloat16));
        } else {
          copy_row<E>(from, to, width, width, E(1));
        }
      }
    }
  });
}

// A bias at or below this is a mask. A row of nothing but such scores has a log-sum-exp that no longer separates
// them, so that neither weights nor gradients could be recomputed from it.
template <typename Real>
inline constexpr Real kAsGoodAsMasked = Real(-1e30);

// Bias and mask of one query over keys [begin, end) as one row in base 2: -inf where masked.
template <typename Real>
struct ScoreModifier {
  const ScoreRule& rule;
  Real softcap;  // base 2; 0: none
  Real slope;    // base 2

  explicit ScoreModifier(const ScoreRule& r)
      : rule(r), softcap(static_cast<Real>(r.softcap * kLog2E)), slope(static_cast<Real>(r.alibi_slope * kLog2E)) {}

  bool has_bias() const { return rule.bias.data || rule.mask.data; }
  // True when every query has the same bias row.
  bool same_for_all_rows() const {
    return (!rule.bias.data || rule.bias.row_stride == 0) && (!rule.mask.data || rule.mask.row_stride == 0);
  }

  template <typename In>
  HWY_INLINE void read_bias(std::int64_t query, std::int64_t begin, std::int64_t end, Real* HWY_RESTRICT row) const {
    const std::int64_t stride = rule.bias.column_stride;
    const In* from = reinterpret_cast<const In*>(rule.bias.data) + query * rule.bias.row_stride + begin * stride;
    const auto base2 = [](In value) {
      const Real x = convert<Real>(value);
      return x <= kAsGoodAsMasked<Real> ? kMasked<Real> : x * static_cast<Real>(kLog2E);
    };
    if (stride == 1) {
      for (std::int64_t k = 0; k < end - begin; ++k) row[k] = base2(from[k]);
    } else {
      for (std::int64_t k = 0; k < end - begin; ++k) row[k] = base2(from[k * stride]);
    }
  }

  // row (end - begin), then -inf up to `padded`.
  void bias_row(std::int64_t query, std::int64_t begin, std::int64_t end, std::int64_t padded,
                Real* HWY_RESTRICT row) const {
    const std::int64_t count = end - begin;
    if (!rule.bias.data) {
      std::fill(row, row + count, Real(0));
    } else {
      switch (rule.bias.dtype) {
        case DType::float64:
          read_bias<double>(query, begin, end, row);
          break;
        case DType::bfloat16:
          read_bias<bfloat16>(query, begin, end, row);
          break;
        case DType::float16:
          read_bias<float16>(query, begin, end, row);
          break;
        default:
          read_bias<float>(query, begin, end, row);
      }
    }
    if (rule.mask.data) {
      const std::int64_t stride = rule.mask.column_stride;
      const auto* from =
          reinterpret_cast<const std::uint8_t*>(rule.mask.data) + query * rule.mask.row_stride + begin * stride;
      const bool keeps = rule.mask_true_keeps;
      if (stride == 1) {
        for (std::int64_t k = 0; k < count; ++k) row[k] = (from[k] != 0) == keeps ? row[k] : kMasked<Real>;
      } else {
        for (std::int64_t k = 0; k < count; ++k) row[k] = (from[k * stride] != 0) == keeps ? row[k] : kMasked<Real>;
      }
    }
    std::fill(row + count, row + padded, kMasked<Real>);
  }

  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V cap(D d, V score) const {
    if (softcap == 0) return score;
    return hn::Mul(hn::Set(d, softcap), tanh(d, hn::Div(score, hn::Set(d, softcap))));
  }

  // What is added to the capped score at `distance` = key position - query position of lane 0.
  template <class D, class V = hn::Vec<D>>
  HWY_INLINE V add_bias(D d, V score, Real distance, const Real* bias) const {
    if (slope != 0) {
      score = hn::NegMulAdd(hn::Set(d, slope), hn::Abs(hn::Add(hn::Iota(d, Real(0)), hn::Set(d, distance))), score);
    }
    if (bias) {
      const V b = hn::LoadU(d, bias);
      score = hn::IfThenElse(hn::Eq(b, hn::Set(d, kMasked<Real>)), b, hn::Add(score, b));
    }
    return score;
  }
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// The way from sums to a result: activation, conversion, and any order of the result in memory.
#pragma once

#include "cpu/kernels/activation-inl.h"
#include "cpu/kernels/matmul_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Rows that are finished together: whole tiles.
template <typename E>
constexpr int strip_rows() {
  int rows = kTileRows;
  while (rows % kLanes<E> != 0) rows += kTileRows;
  return rows;
}
template <typename E>
inline constexpr int kStripRows = strip_rows<E>();
// The same for results that are stored by columns: whole cache lines of them.
template <typename E>
inline constexpr int kTurnedRows = kStripRows<E> >= 64 ? kStripRows<E> : 64 / kStripRows<E>* kStripRows<E>;

// Stores one vector as elements of a result, rounding to nearest even.
template <class D, class V = hn::Vec<D>, typename Out>
HWY_INLINE void store_rounded(D d, V v, Out* to) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  if constexpr (std::is_same_v<Out, bfloat16>) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(v.raw));
    return;
  }
#endif
  store_converted(d, v, to);
}

// to[0 .. count) = from[0 .. count); from is padded to whole vectors.
template <typename Real, typename Out>
HWY_INLINE void store_values(const Real* HWY_RESTRICT from, Out* HWY_RESTRICT to, std::int64_t count) {
  const hn::ScalableTag<Real> d;
  constexpr int kCount = hn::MaxLanes(hn::ScalableTag<Real>());
  std::int64_t i = 0;
  for (; i + kCount <= count; i += kCount) store_rounded(d, hn::LoadU(d, from + i), to + i);
  if (i < count) {
    Out last[kCount];
    store_rounded(d, hn::LoadU(d, from + i), last);
    for (std::int64_t n = 0; n < count - i; ++n) to[i + n] = last[n];
  }
}

// to[0 .. count) = activation(from[0 .. count)), in place or elsewhere; both are padded to whole vectors.
template <typename Real>
void activate_values(Activation activation, const Real* from, Real* to, std::int64_t count) {
  const hn::ScalableTag<Real> d;
  const auto each = [&](auto function) HWY_ATTR {
    for (std::int64_t i = 0; i < count; i += hn::Lanes(d)) hn::StoreU(function(hn::LoadU(d, from + i)), d, to + i);
  };
  using V = hn::Vec<decltype(d)>;
  switch (activation) {
    case Activation::none:
      return;
    case Activation::relu:
      return each([&](V v) HWY_ATTR { return relu(d, v); });
    case Activation::gelu:
      return each([&](V v) HWY_ATTR { return gelu(d, v); });
    case Activation::gelu_tanh:
      return each([&](V v) HWY_ATTR { return gelu_tanh(d, v); });
    case Activation::silu:
      return each([&](V v) HWY_ATTR { return silu(d, v); });
    case Activation::tanh:
      return each([&](V v) HWY_ATTR { return HWY_NAMESPACE::tanh(d, v); });
    case Activation::sigmoid:
      return each([&](V v) HWY_ATTR { return sigmoid(d, v); });
    case Activation::quick_gelu:
      return each([&](V v) HWY_ATTR { return quick_gelu(d, v); });
  }
}

// A strip of sums (rows, stride): rows [row, row + rows) and columns [column, column + columns) of the result.
template <typename Real>
struct Strip {
  Real* sums;
  std::int64_t stride;
  std::int64_t row;
  std::int64_t rows;
  std::int64_t column;
  std::int64_t columns;
};

// Finishes strips of one task.
template <typename E>
class Finisher {
 public:
  using Real = RealOf<E>;

  static constexpr std::int64_t kTurnedCount = kLanes<E> * kTurnedRows<E>;

  // turned: a buffer of kTurnedCount Reals.
  Finisher(const MatmulTask& task, Real* turned) : task_(task), turned_(turned) {}

  // The strip's sums are used up: they may hold the activation's values afterwards.
  void finish(const Strip<Real>& strip) {
    if (task_.accumulate) add_result(strip);
    if (task_.before_activation.data) store(strip, task_.before_activation);
    const MatrixView& to = task_.result;
    // Straight into a result of whole vectors, else in the strip.
    const bool direct = to.dtype == dtype_of<Real> && to.column_stride == 1 && strip.columns % kLanes<E> == 0;
    if (task_.activation != Activation::none) {
      Real* const first =
          direct ? reinterpret_cast<Real*>(to.data) + strip.row * to.row_stride + strip.column : strip.sums;
      const std::int64_t stride = direct ? to.row_stride : strip.stride;
      for (std::int64_t r = 0; r < strip.rows; ++r) {
        activate_values(task_.activation, strip.sums + r * strip.stride, first + r * stride, strip.columns);
      }
      if (direct) return;
    }
    store(strip, to);
  }

 private:
  void add_result(const Strip<Real>& strip) {
    const MatrixView& to = task_.result;
    const Real* data = reinterpret_cast<const Real*>(to.data);
    for (std::int64_t r = 0; r < strip.rows; ++r) {
      const Real* row = data + (strip.row + r) * to.row_stride + strip.column * to.column_stride;
      for (std::int64_t c = 0; c < strip.columns; ++c) strip.sums[r * strip.stride + c] += row[c * to.column_stride];
    }
  }

  void store(const Strip<Real>& strip, const MatrixView& to) {
    with_type<Real>(Rows{.data = to.data, .stride = 0, .dtype = to.dtype}, [&](auto* data) HWY_ATTR {
      auto* first = data + strip.row * to.row_stride + strip.column * to.column_stride;
      if (to.column_stride == 1) {
        for (std::int64_t r = 0; r < strip.rows; ++r) {
          store_values(strip.sums + r * strip.stride, first + r * to.row_stride, strip.columns);
        }
      } else if (to.row_stride == 1) {
        store_turned(strip, first, to.column_stride);
      } else {
        using Out = std::remove_pointer_t<decltype(data)>;
        for (std::int64_t r = 0; r < strip.rows; ++r) {
          for (std::int64_t c = 0; c < strip.columns; ++c) {
            first[r * to.row_stride + c * to.column_stride] = convert<Out>(strip.sums[r * strip.stride + c]);
          }
        }
      }
    });
  }

  // A vector's width of columns at a time, turned in registers: turned (lanes, rows).
  template <typename Out>
  HWY_INLINE void store_turned(const Strip<Real>& strip, Out* first, std::int64_t column_stride) {
    constexpr int kCount = kLanes<E>;
    const VectorTag<E> d;
    for (std::int64_t c = 0; c < strip.columns; c += kCount) {
      for (std::int64_t r = 0; r < strip.rows; r += kCount) {
        hn::Vec<decltype(d)> row[kCount];
        const Real* from = strip.sums + r * strip.stride + c;
#pragma GCC unroll 16
        for (int i = 0; i < kCount; ++i) row[i] = hn::LoadU(d, from + i * strip.stride);
        transpose(d, row);
#pragma GCC unroll 16
        for (int i = 0; i < kCount; ++i) hn::StoreU(row[i], d, turned_ + i * kTurnedRows<E> + r);
      }
      for (std::int64_t i = 0; i < std::min<std::int64_t>(kCount, strip.columns - c); ++i) {
        store_values(turned_ + i * kTurnedRows<E>, first + (c + i) * column_stride, strip.rows);
      }
    }
  }

  const MatmulTask& task_;
  Real* turned_;
};

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

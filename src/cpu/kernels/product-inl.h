// The one inner loop under every product: a register tile of rows x vectors, fed by broadcasts of A and vectors of B.
#pragma once

#include <bit>
#include <cstdint>

#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// Two bf16 numbers that are multiplied with two others and added to one float.
struct Bf16Pair {
  std::uint32_t bits;
};

// What a product computes in. Element: what A and B hold. Real: what is summed.
template <typename E>
struct Arithmetic {
  using Element = E;
  using Real = E;
  static constexpr std::int64_t kValues = 1;  // values per element
  static constexpr bool kFoldsScale = true;   // scaling an operand loses nothing worth keeping
  static constexpr bool kShortExp = false;    // probabilities are rounded to bf16
};
template <>
struct Arithmetic<Bf16Pair> {
  using Element = Bf16Pair;
  using Real = float;
  static constexpr std::int64_t kValues = 2;
  static constexpr bool kFoldsScale = false;
  static constexpr bool kShortExp = true;
};

template <typename E>
using RealOf = typename Arithmetic<E>::Real;
template <typename E>
using VectorTag = hn::ScalableTag<RealOf<E>>;
template <typename E>
using VectorOf = hn::Vec<VectorTag<E>>;

// Rows of a tile: as many as the registers hold beside two vectors of B and the broadcasts.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kTileRows = 8;   // 32 registers: 16 sums
inline constexpr int kPanelRows = 8;  // likewise, where rows come out of a panel of 16 columns
#else
inline constexpr int kTileRows = 5;  // 16 registers: 10 sums; with 12 compilers spill
inline constexpr int kPanelRows = 4;
#endif
// Lanes of a vector, and the columns of a tile: two vectors.
template <typename E>
inline constexpr int kLanes = hn::MaxLanes(VectorTag<E>());
template <typename E>
inline constexpr int kTileColumns = 2 * kLanes<E>;

HWY_INLINE hn::Vec<hn::ScalableTag<float>> multiply_add(const float& a, const float* b,
                                                        hn::Vec<hn::ScalableTag<float>> sum) {
  const hn::ScalableTag<float> d;
#if HWY_TARGET == HWY_AVX2
  // Zen loads two integer broadcasts a cycle, but one of floats.
  const auto broadcast = hn::BitCast(d, hn::Set(hn::RebindToSigned<decltype(d)>(), std::bit_cast<std::int32_t>(a)));
#else
  const auto broadcast = hn::Set(d, a);
#endif
  return hn::MulAdd(broadcast, hn::LoadU(d, b), sum);
}
HWY_INLINE hn::Vec<hn::ScalableTag<double>> multiply_add(double a, const double* b,
                                                         hn::Vec<hn::ScalableTag<double>> sum) {
  const hn::ScalableTag<double> d;
  return hn::MulAdd(hn::Set(d, a), hn::LoadU(d, b), sum);
}
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
HWY_INLINE hn::Vec<hn::ScalableTag<float>> multiply_add(Bf16Pair a, const Bf16Pair* b,
                                                        hn::Vec<hn::ScalableTag<float>> sum) {
  const __m512i pairs = _mm512_loadu_si512(b);
  const __m512i pair = _mm512_set1_epi32(static_cast<int>(a.bits));
  return hn::Vec<hn::ScalableTag<float>>{_mm512_dpbf16_ps(sum.raw, (__m512bh)pair, (__m512bh)pairs)};
}
#endif

// A tile of sums in registers.
template <typename E, int kRows, int kVectors>
struct Tile {
  // NEON's vectors have a constructor, which an implicit one of Tile, outside the target's region, could not inline.
  HWY_INLINE Tile() {}

  VectorOf<E> sum[kRows][kVectors];
};

// sum[r][v] += a[r * kRowStride + k * kStep] * b[k * b_stride + v * lanes] over k in [0, count).
template <int kRowStride, int kStep, typename E, int kRows, int kVectors>
HWY_INLINE void multiply(const E* HWY_RESTRICT a, const E* HWY_RESTRICT b, std::int64_t b_stride, std::int64_t count,
                         Tile<E, kRows, kVectors>& tile) {
  std::int64_t k = 0;
  for (; k + 4 <= count; k += 4) {
#pragma GCC unroll 4
    for (int u = 0; u < 4; ++u) {
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          tile.sum[r][v] =
              multiply_add(a[r * kRowStride + u * kStep], b + u * b_stride + v * kLanes<E>, tile.sum[r][v]);
        }
      }
    }
    a += 4 * kStep;
    b += 4 * b_stride;
  }
  for (; k < count; ++k) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        tile.sum[r][v] = multiply_add(a[r * kRowStride], b + v * kLanes<E>, tile.sum[r][v]);
      }
    }
    a += kStep;
    b += b_stride;
  }
}

// The same for a count known at compile time, without a loop.
template <int kRowStride, int kStep, int kCount, typename E, int kRows, int kVectors>
HWY_INLINE void multiply_fixed(const E* HWY_RESTRICT a, const E* HWY_RESTRICT b, std::int64_t b_stride,
                               Tile<E, kRows, kVectors>& tile) {
#pragma GCC unroll 32
  for (int k = 0; k < kCount; ++k) {
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        tile.sum[r][v] = multiply_add(a[r * kRowStride + k * kStep], b + k * b_stride + v * kLanes<E>, tile.sum[r][v]);
      }
    }
  }
}

// A B^T with A in strips of tile columns, strip_stride apart, each (rows, tile columns), and B^T (depth, tile columns).
template <typename E, int kRows, int kVectors>
HWY_INLINE void multiply_strips(const E* a, std::int64_t strip_stride, const E* b, std::int64_t depth,
                                Tile<E, kRows, kVectors>& tile) {
  constexpr int kStrip = kTileColumns<E>;
  std::int64_t k = 0;
  for (; k + kStrip <= depth; k += kStrip, a += strip_stride) {
    if constexpr (kStrip <= 32) {  // short enough to do without a loop
      multiply_fixed<kStrip, 1, kStrip>(a, b + k * kStrip, kStrip, tile);
    } else {
      multiply<kStrip, 1>(a, b + k * kStrip, kStrip, kStrip, tile);
    }
  }
  if (k < depth) multiply<kStrip, 1>(a, b + k * kStrip, kStrip, depth - k, tile);
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

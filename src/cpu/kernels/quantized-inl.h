// 8-bit operands: how each instruction set multiplies and sums them exactly, rows of x and panels of weights.
#pragma once

#include <bit>
#include <cstring>

#include "cpu/kernels/quantized.h"
#include "cpu/kernels/rowwise-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

using Sums = hn::ScalableTag<std::int32_t>;
using SumVector = hn::Vec<Sums>;
inline constexpr int kSumLanes = hn::MaxLanes(Sums());

// What a lane of sums takes in one step, which is all that differs between instruction sets: kDepth values of a row of
// x (Input), each plus kOffset, times as many weights of the lane's column. Nothing saturates: sums wrap, and end
// within their range.
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
struct DotStep {
  using Input = std::uint8_t;
  static constexpr int kDepth = 4;
  static constexpr int kOffset = 128;

  static HWY_INLINE SumVector broadcast(const Input* x) {
    std::int32_t four;
    std::memcpy(&four, x, sizeof(four));
    return hn::Set(Sums(), four);
  }
  static HWY_INLINE SumVector weights(const std::int8_t* w) { return SumVector{_mm512_loadu_si512(w)}; }
  static HWY_INLINE SumVector add(SumVector sum, SumVector x, SumVector w) {
    return SumVector{_mm512_dpbusd_epi32(sum.raw, x.raw, w.raw)};
  }
};
#elif HWY_TARGET == HWY_NEON
struct DotStep {
  using Input = std::int8_t;
  static constexpr int kDepth = 2;
  static constexpr int kOffset = 0;

  static HWY_INLINE int8x8_t broadcast(const Input* x) {
    std::int16_t pair;
    std::memcpy(&pair, x, sizeof(pair));
    return vreinterpret_s8_s16(vdup_n_s16(pair));
  }
  static HWY_INLINE int8x8_t weights(const std::int8_t* w) { return vld1_s8(w); }
  // A product of two numbers of 8 bits fits into 16.
  static HWY_INLINE SumVector add(SumVector sum, int8x8_t x, int8x8_t w) {
    return SumVector(vpadalq_s16(sum.raw, vmull_s8(x, w)));
  }
};
#else
// Weights are widened to 16 bits, as x is: products of 8 bits that are added in 16 could saturate.
struct DotStep {
  using Input = std::int16_t;
  using Words = hn::Repartition<std::int16_t, Sums>;
  static constexpr int kDepth = 2;
  static constexpr int kOffset = 0;

  static HWY_INLINE hn::Vec<Words> broadcast(const Input* x) {
    std::int32_t pair;
    std::memcpy(&pair, x, sizeof(pair));
    return hn::BitCast(Words(), hn::Set(Sums(), pair));
  }
  static HWY_INLINE hn::Vec<Words> weights(const std::int8_t* w) {
    return hn::PromoteTo(Words(), hn::LoadU(hn::Rebind<std::int8_t, Words>(), w));
  }
  static HWY_INLINE SumVector add(SumVector sum, hn::Vec<Words> x, hn::Vec<Words> w) {
    SumVector unused = hn::Zero(Sums());
    return hn::ReorderWidenMulAccumulate(Sums(), x, w, sum, unused);
  }
};
#endif

// A tile of sums in registers: rows x vectors.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_TARGET == HWY_NEON
inline constexpr int kDotRows = 6;  // 32 registers: 24 sums
inline constexpr int kDotVectors = 4;
#else
inline constexpr int kDotRows = 5;  // 16 registers: 10 sums
inline constexpr int kDotVectors = 2;
#endif
inline constexpr int kPanelColumns = kDotVectors * kSumLanes;

// ---- rows of x ----

// Values of a row are stored in groups of this many.
inline constexpr std::int64_t kRowGroup = 64;

HWY_INLINE std::int64_t quantized_row_bytes(std::int64_t depth) {
  return round_up(depth, kRowGroup) * static_cast<std::int64_t>(sizeof(DotStep::Input));
}

// The bits of the greatest magnitude of a row, which are in the order of the magnitudes: infinity comes after all
// numbers and NaN after that, whatever the order in which they are compared.
HWY_INLINE std::int32_t magnitude_bits(const float* x, std::int64_t depth) {
  const hn::ScalableTag<float> d;
  const Sums di;
  using V = hn::Vec<Sums>;
  const V most = fold(
      Sums(), depth, hn::Zero(di),
      [&](V greatest, std::int64_t i, auto part)
          HEADWAY_INNER { return hn::Max(greatest, hn::BitCast(di, hn::Abs(load(d, x + i, part)))); },
      [](V a, V b) HEADWAY_INNER { return hn::Max(a, b); });
  return hn::GetLane(hn::MaxOfLanes(di, most));
}

// The whole numbers nearest to small ones, of two equally near ones the even one: 1.5 * 2^23 leaves them in the low
// bits.
template <class V>
HWY_INLINE SumVector nearest_whole(V x) {
  constexpr float kMagic = 12582912.0f;
  const hn::ScalableTag<float> d;
  const auto shifted = hn::BitCast(Sums(), hn::Add(x, hn::Set(d, kMagic)));
  return hn::Sub(shifted, hn::Set(Sums(), std::bit_cast<std::int32_t>(kMagic)));
}

// One vector of whole numbers of at most 127 as inputs.
HWY_INLINE void store_inputs(SumVector whole, DotStep::Input* to) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  const __m128i bytes = _mm512_cvtepi32_epi8(whole.raw);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
#else
  const hn::Rebind<DotStep::Input, Sums> narrow;
  hn::StoreU(hn::DemoteTo(narrow, whole), narrow, to);
#endif
}
// Four of them.
HWY_INLINE void store_inputs(SumVector v0, SumVector v1, SumVector v2, SumVector v3, DotStep::Input* to) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
  // Narrowing works within 128 bits: every fourth group of four bytes belongs to the same vector.
  const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(v0.raw, v1.raw), _mm512_packs_epi32(v2.raw, v3.raw));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i values = _mm512_permutexvar_epi32(order, bytes);
  _mm512_storeu_si512(to, _mm512_xor_si512(values, _mm512_set1_epi8(-128)));
#else
  store_inputs(v0, to);
  store_inputs(v1, to + kSumLanes);
  store_inputs(v2, to + 2 * kSumLanes);
  store_inputs(v3, to + 3 * kSumLanes);
#endif
}

// Writes whole groups of values; returns the scale. The row `stride` further on, which is the next one, is fetched.
HWY_INLINE float quantize_row(const float* x, std::int64_t stride, std::int64_t depth, DotStep::Input* values) {
  const hn::ScalableTag<float> d;
  const float greatest = std::bit_cast<float>(magnitude_bits(x, depth));
  const bool is_finite = greatest <= std::numeric_limits<float>::max();
  if (!is_finite || greatest < kLeastMagnitude) {
    std::fill_n(values, round_up(depth, kRowGroup), static_cast<DotStep::Input>(DotStep::kOffset));
    return is_finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const auto inverse = hn::Set(d, 127.0F / greatest);
  const auto whole = [&](std::int64_t i, auto part)
                         HEADWAY_INNER { return nearest_whole(hn::Mul(load(d, x + i, part), inverse)); };
  std::int64_t i = 0;
  for (; i + 4 * kSumLanes <= depth; i += 4 * kSumLanes) {
    for (int n = 0; n < 4 * kSumLanes; n += 16) __builtin_prefetch(x + stride + i + n);
    store_inputs(whole(i, Whole()), whole(i + kSumLanes, Whole()), whole(i + 2 * kSumLanes, Whole()),
                 whole(i + 3 * kSumLanes, Whole()), values + i);
  }
  for_each_vector(d, depth - i,
                  [&](std::int64_t n, auto part) HEADWAY_INNER { store_inputs(whole(i + n, part), values + i + n); });
  const std::int64_t end = round_up(depth, std::int64_t{kSumLanes});
  std::fill_n(values + end, round_up(depth, kRowGroup) - end, static_cast<DotStep::Input>(DotStep::kOffset));
  return greatest / 127;
}

// ---- panels of a weight: what sums start from (columns) int32, then (depth / kDepth, columns, kDepth) int8 ----

HWY_INLINE std::int64_t dot_steps(std::int64_t depth) { return (depth + DotStep::kDepth - 1) / DotStep::kDepth; }

HWY_INLINE std::int64_t quantized_panel_bytes(std::int64_t depth) {
  return kPanelColumns * (static_cast<std::int64_t>(sizeof(std::int32_t)) + dot_steps(depth) * DotStep::kDepth);
}

inline void pack_panel(const QuantizedPackTask& task) {
  constexpr int kDepth = DotStep::kDepth;
  std::memset(task.panel, 0, static_cast<std::size_t>(quantized_panel_bytes(task.depth)));
  auto* starts = reinterpret_cast<std::int32_t*>(task.panel);
  auto* values = reinterpret_cast<std::int8_t*>(starts + kPanelColumns);
  for (std::int64_t column = 0; column < task.columns; ++column) {
    const std::int8_t* from = task.weight + column * task.depth;
    std::int8_t* to = values + column * kDepth;
    std::int64_t k = 0;
    for (; k + kDepth <= task.depth; k += kDepth, to += kPanelColumns * kDepth) std::memcpy(to, from + k, kDepth);
    std::memcpy(to, from + k, static_cast<std::size_t>(task.depth - k));
    if constexpr (DotStep::kOffset != 0) {
      std::int64_t sum = 0;
      for (std::int64_t i = 0; i < task.depth; ++i) sum += from[i];
      starts[column] = static_cast<std::int32_t>(-DotStep::kOffset * sum);
    }
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// Copies between users' tensors and the layouts that the products read: conversion, padding and transposition.
#pragma once

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/convert.h"
#include "cpu/kernels/attention.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

template <typename E>
HWY_INLINE std::int64_t element_count(std::int64_t values) {
  return (values + Arithmetic<E>::kValues - 1) / Arithmetic<E>::kValues;
}
HWY_INLINE std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Value `index` of an element: a pair holds an even and an odd one.
template <typename E>
HWY_INLINE RealOf<E> value_of(E element, [[maybe_unused]] std::int64_t index) {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    bfloat16 half;
    half.bits = static_cast<std::uint16_t>(index % 2 == 0 ? element.bits : element.bits >> 16);
    return to_float(half);
  } else {
    return element;
  }
}

// One vector of a user's elements as Real.
template <class D>
HWY_INLINE hn::Vec<D> load_converted(D d, const float* source) {
  return hn::LoadU(d, source);
}
template <class D>
HWY_INLINE hn::Vec<D> load_converted(D d, const double* source) {
  return hn::LoadU(d, source);
}
template <class D>
HWY_INLINE hn::Vec<D> load_converted(D d, const bfloat16* source) {
  const hn::Rebind<std::uint16_t, D> half;
  const hn::RebindToUnsigned<D> whole;
  const auto bits = hn::PromoteTo(whole, hn::LoadU(half, reinterpret_cast<const std::uint16_t*>(source)));
  return hn::BitCast(d, hn::ShiftLeft<16>(bits));
}
template <class D>
HWY_INLINE hn::Vec<D> load_converted(D d, const float16* source) {
#if HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_NEON
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(source)));
#else  // without the instruction, Highway's conversion has no NaN and no infinity
  alignas(64) float lanes[hn::MaxLanes(D())];
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = to_float(source[i]);
  return hn::Load(d, lanes);
#endif
}

// Stores one vector as a user's elements, rounding to nearest even.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_converted(D d, V v, float* target) {
  hn::StoreU(v, d, target);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_converted(D d, V v, double* target) {
  hn::StoreU(v, d, target);
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_converted(D, V v, bfloat16* target) {
  const hn::RebindToUnsigned<D> whole;
  const hn::Rebind<std::uint16_t, D> half;
  const auto bits = hn::BitCast(whole, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(whole, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(whole, 0x7FFFu)));
  const auto quiet = hn::Or(bits, hn::Set(whole, 0x400000u));  // a NaN stays a NaN
  const auto chosen = hn::IfThenElse(hn::RebindMask(whole, hn::IsNaN(v)), quiet, rounded);
  const auto top = hn::ShiftRight<16>(chosen);
  hn::StoreU(hn::DemoteTo(half, hn::BitCast(hn::RebindToSigned<D>(), top)), half,
             reinterpret_cast<std::uint16_t*>(target));
}
template <class D, class V = hn::Vec<D>>
HWY_INLINE void store_converted([[maybe_unused]] D d, V v, float16* target) {
#if HWY_TARGET <= HWY_AVX2 || HWY_TARGET == HWY_NEON
  const hn::Rebind<hwy::float16_t, D> half;
  hn::StoreU(hn::DemoteTo(half, v), half, reinterpret_cast<hwy::float16_t*>(target));
#else
  alignas(64) float lanes[hn::MaxLanes(D())];
  hn::Store(v, d, lanes);
  for (std::size_t i = 0; i < hn::Lanes(d); ++i) target[i] = convert<float16>(lanes[i]);
#endif
}

// target[0 .. count) = source[0 .. count) * factor, then zeros up to padded.
template <typename Real, typename In>
HWY_INLINE void copy_row(const In* HWY_RESTRICT source, Real* HWY_RESTRICT target, std::int64_t count,
                         std::int64_t padded, Real factor) {
  const hn::ScalableTag<Real> d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::Mul(load_converted(d, source + i), f), d, target + i);
  for (; i < count; ++i) target[i] = convert<Real>(source[i]) * factor;
  for (; i < padded; ++i) target[i] = 0;
}

// target[0 .. count) = source[0 .. count) * factor in the user's dtype; target may be source.
template <typename Real, typename Out>
HWY_INLINE void store_row(const Real* source, Out* target, std::int64_t count, Real factor) {
  const hn::ScalableTag<Real> d;
  const std::int64_t lanes = hn::Lanes(d);
  const auto f = hn::Set(d, factor);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) store_converted(d, hn::Mul(hn::LoadU(d, source + i), f), target + i);
  for (; i < count; ++i) target[i] = convert<Out>(static_cast<Real>(source[i] * factor));
}

// Calls visit(pointer of the rows' own type): the dtypes that go with Real.
template <typename Real, typename Visit>
HWY_INLINE void with_type(const Rows& rows, Visit visit) {
  if constexpr (std::is_same_v<Real, double>) {
    visit(reinterpret_cast<double*>(rows.data));
  } else {
    switch (rows.dtype) {
      case DType::bfloat16:
        return visit(reinterpret_cast<bfloat16*>(rows.data));
      case DType::float16:
        return visit(reinterpret_cast<float16*>(rows.data));
      default:
        return visit(reinterpret_cast<float*>(rows.data));
    }
  }
}

// Row `row` of a user's tensor as `padded` Reals, times factor.
template <typename Real>
HWY_INLINE void read_row(const Rows& rows, std::int64_t row, std::int64_t count, std::int64_t padded, Real factor,
                         Real* target) {
  const std::int64_t offset = row * rows.stride;
  if constexpr (std::is_same_v<Real, double>) {
    copy_row(reinterpret_cast<const double*>(rows.data) + offset, target, count, padded, factor);
  } else {
    switch (rows.dtype) {
      case DType::bfloat16:
        return copy_row(reinterpret_cast<const bfloat16*>(rows.data) + offset, target, count, padded, factor);
      case DType::float16:
        return copy_row(reinterpret_cast<const float16*>(rows.data) + offset, target, count, padded, factor);
      default:
        return copy_row(reinterpret_cast<const float*>(rows.data) + offset, target, count, padded, factor);
    }
  }
}

// Row `row` of a user's tensor from Reals, times factor.
template <typename Real>
HWY_INLINE void write_row(const Real* source, const Rows& rows, std::int64_t row, std::int64_t first,
                          std::int64_t count, Real factor) {
  const std::int64_t offset = row * rows.stride + first;
  if constexpr (std::is_same_v<Real, double>) {
    store_row(source, reinterpret_cast<double*>(rows.data) + offset, count, factor);
  } else {
    switch (rows.dtype) {
      case DType::bfloat16:
        return store_row(source, reinterpret_cast<bfloat16*>(rows.data) + offset, count, factor);
      case DType::float16:
        return store_row(source, reinterpret_cast<float16*>(rows.data) + offset, count, factor);
      default:
        return store_row(source, reinterpret_cast<float*>(rows.data) + offset, count, factor);
    }
  }
}

// Transposes a square of lanes x lanes 32- or 64-bit elements held in vectors.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void transpose(D d, V (&row)[hn::MaxLanes(D())]) {
  constexpr int kCount = hn::MaxLanes(D());
  constexpr int kPerBlock = 16 / sizeof(hn::TFromD<D>);
  constexpr int kBlocks = kCount / kPerBlock;
  // Within 128-bit blocks: afterwards row[g * kPerBlock + c] holds column c of every block, for the rows of group g.
#pragma GCC unroll 16
  for (int g = 0; g < kBlocks; ++g) {
    V* r = row + g * kPerBlock;
    if constexpr (kPerBlock == 4) {
      const hn::RepartitionToWide<D> wide;
      const auto t0 = hn::BitCast(wide, hn::InterleaveLower(d, r[0], r[1]));
      const auto t1 = hn::BitCast(wide, hn::InterleaveUpper(d, r[0], r[1]));
      const auto t2 = hn::BitCast(wide, hn::InterleaveLower(d, r[2], r[3]));
      const auto t3 = hn::BitCast(wide, hn::InterleaveUpper(d, r[2], r[3]));
      r[0] = hn::BitCast(d, hn::InterleaveLower(wide, t0, t2));
      r[1] = hn::BitCast(d, hn::InterleaveUpper(wide, t0, t2));
      r[2] = hn::BitCast(d, hn::InterleaveLower(wide, t1, t3));
      r[3] = hn::BitCast(d, hn::InterleaveUpper(wide, t1, t3));
    } else {
      const V t0 = hn::InterleaveLower(d, r[0], r[1]);
      const V t1 = hn::InterleaveUpper(d, r[0], r[1]);
      r[0] = t0;
      r[1] = t1;
    }
  }
  // Across blocks.
#if HWY_TARGET == HWY_AVX2
#pragma GCC unroll 16
  for (int c = 0; c < kPerBlock; ++c) {
    const V g0 = row[c], g1 = row[kPerBlock + c];
    row[c] = hn::ConcatLowerLower(d, g1, g0);
    row[kPerBlock + c] = hn::ConcatUpperUpper(d, g1, g0);
  }
#elif HWY_TARGET <= HWY_AVX3
#pragma GCC unroll 16
  for (int c = 0; c < kPerBlock; ++c) {
    const V g0 = row[c], g1 = row[kPerBlock + c], g2 = row[2 * kPerBlock + c], g3 = row[3 * kPerBlock + c];
    const V low02 = hn::ConcatLowerLower(d, g2, g0), low13 = hn::ConcatLowerLower(d, g3, g1);
    const V high02 = hn::ConcatUpperUpper(d, g2, g0), high13 = hn::ConcatUpperUpper(d, g3, g1);
    row[c] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02);
    row[kPerBlock + c] = hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02));
    row[2 * kPerBlock + c] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02);
    row[3 * kPerBlock + c] = hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02));
  }
#endif
}

// Element `index` of a row of a user's tensor; a pair past the end is filled with zero.
HWY_INLINE Bf16Pair load_pair(const bfloat16* row, std::int64_t index, std::int64_t dim) {
  const std::uint32_t low = row[2 * index].bits;
  const std::uint32_t high = 2 * index + 1 < dim ? row[2 * index + 1].bits : 0;
  return {low | high << 16};
}

// packed (tiles, elements of dim, tile columns) = source^T * factor: B of Q K^T.
template <typename E, typename In>
void pack_transposed(const In* HWY_RESTRICT source, std::int64_t stride, std::int64_t begin, std::int64_t end,
                     std::int64_t dim, RealOf<E> factor, E* HWY_RESTRICT packed) {
  using Lane = std::conditional_t<std::is_same_v<E, Bf16Pair>, std::uint32_t, RealOf<E>>;
  const hn::ScalableTag<Lane> d;
  constexpr int kCount = kLanes<E>;
  const std::int64_t depth = element_count<E>(dim);
  const std::int64_t full_depth = dim / Arithmetic<E>::kValues;
  for (std::int64_t key = begin; key < end; key += kCount) {
    E* column = packed + key / kTileColumns<E> * kTileColumns<E> * depth + key % kTileColumns<E>;
    const std::int64_t keys = std::min<std::int64_t>(kCount, end - key);
    std::int64_t k = 0;
    for (; k + kCount <= full_depth; k += kCount) {
      hn::Vec<decltype(d)> row[kCount];
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) {
        const In* from = source + (key + std::min<std::int64_t>(i, keys - 1)) * stride;
        if constexpr (std::is_same_v<E, Bf16Pair>) {
          row[i] = hn::LoadU(d, reinterpret_cast<const Lane*>(from) + k);
        } else {
          row[i] = hn::Mul(load_converted(d, from + k), hn::Set(d, factor));
        }
        if (i >= keys) row[i] = hn::Zero(d);
      }
      transpose(d, row);
#pragma GCC unroll 16
      for (int i = 0; i < kCount; ++i) {
        hn::StoreU(row[i], d, reinterpret_cast<Lane*>(column + (k + i) * kTileColumns<E>));
      }
    }
    for (; k < depth; ++k) {
      for (int i = 0; i < kCount; ++i) {
        E& element = column[k * kTileColumns<E> + i];
        const In* from = source + (key + i) * stride;
        if constexpr (std::is_same_v<E, Bf16Pair>) {
          element = i < keys ? load_pair(from, k, dim) : E{0};
        } else {
          element = i < keys ? convert<E>(from[k]) * factor : E(0);
        }
      }
    }
  }
  // A tile of which only the first vector was touched: the second is zero.
  if (const std::int64_t touched = round_up(end, kCount); touched % kTileColumns<E> != 0) {
    E* column = packed + touched / kTileColumns<E> * kTileColumns<E> * depth + touched % kTileColumns<E>;
    for (std::int64_t k = 0; k < depth; ++k) std::memset(column + k * kTileColumns<E>, 0, kCount * sizeof(E));
  }
}

// packed (keys, padded columns) = source; for pairs (keys / 2, padded columns) with two keys in an element: B of P V.
template <typename E, typename In>
void pack_rows(const In* HWY_RESTRICT source, std::int64_t stride, std::int64_t begin, std::int64_t end,
               std::int64_t dim, std::int64_t padded, RealOf<E> factor, E* HWY_RESTRICT packed) {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    for (std::int64_t key = begin; key < end; key += 2) {
      const std::uint16_t* even = reinterpret_cast<const std::uint16_t*>(source + key * stride);
      const std::uint16_t* odd = reinterpret_cast<const std::uint16_t*>(source + (key + 1) * stride);
      const bool pair = key + 1 < end;
      E* to = packed + key / 2 * padded;
      std::int64_t c = 0;
      const hn::ScalableTag<std::uint32_t> d;
      const hn::Rebind<std::uint16_t, decltype(d)> half;
      for (; c + kLanes<E> <= dim; c += kLanes<E>) {
        const auto low = hn::PromoteTo(d, hn::LoadU(half, even + c));
        const auto high = pair ? hn::PromoteTo(d, hn::LoadU(half, odd + c)) : hn::Zero(d);
        hn::StoreU(hn::Or(low, hn::ShiftLeft<16>(high)), d, reinterpret_cast<std::uint32_t*>(to + c));
      }
      for (; c < dim; ++c) to[c].bits = even[c] | (pair ? std::uint32_t{odd[c]} << 16 : 0);
      for (; c < padded; ++c) to[c].bits = 0;
    }
  } else {
    for (std::int64_t key = begin; key < end; ++key) {
      copy_row(source + key * stride, packed + key * padded, dim, padded, factor);
    }
  }
}

// Calls pack(pointer in the source's dtype) for the dtypes that go with E.
template <typename E, typename Pack>
HWY_INLINE void with_source(const Rows& source, Pack pack) {
  if constexpr (std::is_same_v<E, Bf16Pair>) {
    pack(reinterpret_cast<const bfloat16*>(source.data));
  } else {
    with_type<RealOf<E>>(source, pack);
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

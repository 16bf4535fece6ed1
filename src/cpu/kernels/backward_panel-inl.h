// Panels: how P and dS lie between the products that make them and those that read them.
//
// A panel is (keys / kPanelColumns, queries, kPanelColumns): one cache line holds one query's 16 keys, so that both P^T
// (keys as rows, summed over queries) and dS (queries as rows, summed over keys) are read in order. With pairs, an
// element of a panel holds two queries; the dS that is summed over keys then has a panel of its own, whose elements
// hold two keys.
#pragma once

#include "cpu/kernels/backward_pack-inl.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

inline constexpr int kPanelColumns = 16;

// Where element (query, key) of a panel lies; for pairs the query is even.
template <typename E>
HWY_INLINE std::int64_t panel_offset(std::int64_t query, std::int64_t key) {
  constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  return (key / kPanelColumns * (kBackwardQueries / kValues) + query / kValues) * kPanelColumns + key % kPanelColumns;
}

template <typename E, int kVectors>
HWY_INLINE void store_panel(E* panel, std::int64_t row, std::int64_t column, const Tile<E, kTileRows, kVectors>& tile) {
  constexpr int kLane = kLanes<E>;
  if constexpr (Arithmetic<E>::kValues == 2) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
    const __m512i zip = zip_halves();
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; r += 2) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        // The lower half of `both` is row r, the upper one row r + 1.
        const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(tile.sum[r + 1][v].raw, tile.sum[r][v].raw);
        _mm512_storeu_si512(panel + panel_offset<E>(row + r, column + v * kLane), _mm512_permutexvar_epi16(zip, both));
      }
    }
#endif
  } else {
#pragma GCC unroll 8
    for (int r = 0; r < kTileRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        hn::StoreU(tile.sum[r][v], VectorTag<E>(), panel + panel_offset<E>(row + r, column + v * kLane));
      }
    }
  }
}

#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
// The panel of key pairs: (keys / 32, queries, 16 pairs of keys).
HWY_INLINE void store_key_pairs(Bf16Pair* panel, std::int64_t row, std::int64_t column,
                                const Tile<Bf16Pair, kTileRows, 2>& tile) {
#pragma GCC unroll 8
  for (int r = 0; r < kTileRows; ++r) {
    Bf16Pair* target = panel + (column / (2 * kPanelColumns) * kBackwardQueries + row + r) * kPanelColumns;
    _mm512_storeu_si512(target, (__m512i)_mm512_cvtne2ps_pbh(tile.sum[r][1].raw, tile.sum[r][0].raw));
  }
}
#endif

// target += a * b, where a zero hides what it multiplies.
template <typename E>
void add_carefully(E a, const E* b, std::int64_t count, RealOf<E>* target) {
  for (int part = 0; part < Arithmetic<E>::kValues; ++part) {
    const RealOf<E> x = value_of(a, part);
    if (x == 0) continue;
    for (std::int64_t c = 0; c < count; ++c) target[c] += x * value_of(b[c], part);
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

// Preparation of the backward: rows cut into strips of tile columns, the tile of queries that all blocks of keys share,
// and the statistics of each row.
#pragma once

#include "cpu/kernels/attention.h"
#include "cpu/kernels/pack-inl.h"
#include "cpu/kernels/product-inl.h"
#include "cpu/kernels/scores-inl.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

inline constexpr int kBackwardQueries = 16 * kTileRows;  // of a tile
inline constexpr int kBackwardKeys = 16 * kTileRows;     // of a block

// True when no element is an infinity or NaN: without its sign, such a number is at least the exponent of all ones.
template <typename E>
bool all_finite(const E* data, std::int64_t count) {
  using Word = std::conditional_t<std::is_same_v<E, double>, std::uint64_t,
                                  std::conditional_t<std::is_same_v<E, float>, std::uint32_t, std::uint16_t>>;
  constexpr Word kInfinity = static_cast<Word>(std::is_same_v<E, double>  ? 0x7FF0000000000000u
                                               : std::is_same_v<E, float> ? 0x7F800000u
                                                                          : 0x7F80u);
  constexpr Word kWithoutSign = static_cast<Word>(static_cast<Word>(~Word(0)) >> 1);
  const hn::ScalableTag<Word> d;
  const auto magnitude = hn::Set(d, kWithoutSign);
  const auto* words = reinterpret_cast<const Word*>(data);
  const std::int64_t total = count * static_cast<std::int64_t>(sizeof(E) / sizeof(Word));
  auto largest = hn::Zero(d);
  for (std::int64_t i = 0; i < total; i += hn::Lanes(d)) {
    largest = hn::Max(largest, hn::And(hn::LoadU(d, words + i), magnitude));
  }
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, kInfinity)));
}

// The rows of a tensor from `first` on.
HWY_INLINE Rows rows_from(const Rows& rows, std::int64_t first) {
  const auto bytes = static_cast<std::int64_t>(item_size(rows.dtype));
  return {rows.data + first * rows.stride * bytes, rows.stride, rows.dtype};
}

#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
// The permutation of 32 halves that takes (a0 .. a15, b0 .. b15) to (a0, b0, a1, b1, ..).
HWY_INLINE __m512i zip_halves() {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  return _mm512_or_si512(lane, _mm512_slli_epi32(_mm512_add_epi32(lane, _mm512_set1_epi32(16)), 16));
}
#endif

// A strip of whole vectors: rows (count, tile columns), for pairs (count / 2, tile columns).
template <typename E, typename In>
HWY_INLINE void pack_whole_strip(const In* source, std::int64_t stride, std::int64_t count,
                                 [[maybe_unused]] RealOf<E> factor, E* HWY_RESTRICT strip) {
  constexpr int kLane = kLanes<E>;
  constexpr int kColumns = kTileColumns<E>;
  if constexpr (Arithmetic<E>::kValues == 2) {
#if defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)
    const __m512i zip = zip_halves();
    for (std::int64_t r = 0; r < count; r += 2, source += 2 * stride, strip += kColumns) {
      const __m512i even = _mm512_loadu_si512(source);
      const __m512i odd = r + 1 < count ? _mm512_loadu_si512(source + stride) : _mm512_setzero_si512();
      const __m512i low = _mm512_shuffle_i64x2(even, odd, 0x44), high = _mm512_shuffle_i64x2(even, odd, 0xEE);
      _mm512_storeu_si512(strip, _mm512_permutexvar_epi16(zip, low));
      _mm512_storeu_si512(strip + kLane, _mm512_permutexvar_epi16(zip, high));
    }
#endif
  } else {
    const VectorTag<E> d;
    const auto f = hn::Set(d, factor);
    for (std::int64_t r = 0; r < count; ++r, source += stride, strip += kColumns) {
      hn::Store(hn::Mul(load_converted(d, source), f), d, strip);
      hn::Store(hn::Mul(load_converted(d, source + kLane), f), d, strip + kLane);
    }
  }
}

// strips (dim / tile columns, capacity / values, tile columns) of `count` rows, zeros up to whole row blocks: B of a
// product that sums over rows, and without pairs also A of one that sums over columns. True when all are finite.
template <typename E, typename In>
bool pack_strips(const In* source, std::int64_t stride, std::int64_t count, std::int64_t capacity, std::int64_t dim,
                 RealOf<E> factor, E* HWY_RESTRICT strips) {
  constexpr int kColumns = kTileColumns<E>;
  constexpr std::int64_t kValues = Arithmetic<E>::kValues;
  const std::int64_t filled = element_count<E>(count), padded = element_count<E>(round_up(count, kTileRows));
  bool finite = true;
  for (std::int64_t c = 0; c < dim; c += kColumns, strips += capacity / kValues * kColumns) {
    const std::int64_t width = std::min<std::int64_t>(kColumns, dim - c);
    if (width == kColumns) {
      pack_whole_strip<E>(source + c, stride, count, factor, strips);
    } else {
      pack_rows<E>(source + c, stride, 0, count, width, kColumns, factor, strips);
    }
    std::memset(strips + filled * kColumns, 0, (padded - filled) * kColumns * sizeof(E));
    finite &= all_finite(strips, padded * kColumns);
  }
  return finite;
}

// strips (elements of dim / tile columns, capacity, tile columns) of pairs along the columns: A of a product that
// sums over columns.
template <typename E>
void copy_strips(const Rows& source, std::int64_t count, std::int64_t dim, E* HWY_RESTRICT strips) {
  constexpr int kColumns = kTileColumns<E>;
  constexpr std::int64_t kWidth = kColumns * Arithmetic<E>::kValues;
  const std::int64_t padded = round_up(count, kTileRows);
  for (std::int64_t c = 0; c < dim; c += kWidth, strips += kBackwardQueries * kColumns) {
    const std::int64_t width = std::min(kWidth, dim - c);
    const auto* from = reinterpret_cast<const std::uint16_t*>(source.data) + c;
    for (std::int64_t r = 0; r < padded; ++r, from += source.stride) {
      auto* to = reinterpret_cast<std::uint16_t*>(strips + r * kColumns);
      if (r < count && width == kWidth) {
        std::memcpy(to, from, kWidth * sizeof(std::uint16_t));
        continue;
      }
      const std::int64_t present = r < count ? width : 0;
      if (present) std::memcpy(to, from, present * sizeof(std::uint16_t));
      std::memset(to + present, 0, (kWidth - present) * sizeof(std::uint16_t));
    }
  }
}

// A tile of queries, packed once and read by every block of keys.
template <typename E>
struct QueryTile {
  using Real = RealOf<E>;
  static constexpr bool kPairs = Arithmetic<E>::kValues == 2;
  static constexpr std::int64_t kValues = Arithmetic<E>::kValues;

  struct Flags {
    bool queries_finite;
    bool d_outputs_finite;
  };

  std::int64_t bytes = 0;
  E* queries;        // (depth / tile columns, queries, tile columns): summed over columns; scaled where scale is folded
  E* d_outputs;      // (value depth / tile columns, queries, tile columns)
  E* query_rows;     // (head_dim / tile columns, queries, tile columns): summed over rows
  E* d_output_rows;  // (value_dim / tile columns, queries, tile columns)
  Real* reference;   // (queries): P = exp2(S - reference - rest)
  Real* rest;        // (queries)
  Real* delta;       // (queries)
  Flags* flags;

  QueryTile(std::byte* memory, std::int64_t head_dim, std::int64_t value_dim) {
    constexpr std::int64_t kColumns = kTileColumns<E>;
    queries = take<E>(memory, kBackwardQueries * round_up(element_count<E>(head_dim), kColumns));
    d_outputs = take<E>(memory, kBackwardQueries * round_up(element_count<E>(value_dim), kColumns));
    query_rows = kPairs ? take<E>(memory, row_elements(head_dim)) : queries;
    d_output_rows = kPairs ? take<E>(memory, row_elements(value_dim)) : d_outputs;
    reference = take<Real>(memory, kBackwardQueries);
    rest = take<Real>(memory, kBackwardQueries);
    delta = take<Real>(memory, kBackwardQueries);
    flags = take<Flags>(memory, 1);
  }

  void pack(const BackwardTile& tile, std::int64_t head_dim, std::int64_t value_dim, double scale) const {
    const std::int64_t count = tile.query_end - tile.query_begin;
    const Real factor = Arithmetic<E>::kFoldsScale ? static_cast<Real>(scale) : Real(1);
    flags->queries_finite = pack_operand(tile.query, tile.query_begin, count, head_dim, factor, queries, query_rows);
    if (tile.d_output.data) {
      flags->d_outputs_finite =
          pack_operand(tile.d_output, tile.query_begin, count, value_dim, Real(1), d_outputs, d_output_rows);
    } else {
      const std::int64_t depth = round_up(element_count<E>(value_dim), kTileColumns<E>);
      std::memset(d_outputs, 0, static_cast<std::size_t>(kBackwardQueries * depth) * sizeof(E));
      flags->d_outputs_finite = true;
    }
    for (std::int64_t q = 0; q < kBackwardQueries; ++q) {
      const bool present = q < count;
      const RowReferences& rows = tile.references;
      reference[q] = present ? static_cast<const Real*>(rows.reference)[tile.query_begin + q] : kEmptyRow<Real>;
      rest[q] = present && rows.rest ? static_cast<const Real*>(rows.rest)[tile.query_begin + q] : Real(0);
      delta[q] = present ? static_cast<const Real*>(tile.delta)[tile.query_begin + q] : Real(0);
    }
  }

 private:
  static std::int64_t row_elements(std::int64_t dim) {
    return kBackwardQueries / kValues * round_up(dim, kTileColumns<E>);
  }
  static bool pack_operand(const Rows& source, std::int64_t first, std::int64_t count, std::int64_t dim, Real factor,
                           [[maybe_unused]] E* by_column, E* by_row) {
    const Rows rows = rows_from(source, first);
    bool finite = true;
    with_source<E>(rows, [&](const auto* data) HWY_ATTR {
      finite = pack_strips<E>(data, rows.stride, count, kBackwardQueries, dim, factor, by_row);
    });
    if constexpr (kPairs) copy_strips<E>(rows, count, dim, by_column);
    return finite;
  }
  template <typename T>
  T* take(std::byte* memory, std::int64_t count) {
    T* taken = reinterpret_cast<T*>(memory + bytes);
    bytes += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return taken;
  }
};

// delta = sum(dO * O) - d_logsumexp and the log-sum-exp in base 2, row by row.
template <typename Real>
void row_statistics(const RowStatisticsTask& task, Real* HWY_RESTRICT workspace) {
  const hn::ScalableTag<Real> d;
  const std::int64_t lanes = hn::Lanes(d);
  const std::int64_t padded = round_up(task.value_dim, lanes);
  Real* output = workspace;
  Real* d_output = workspace + padded;
  for (std::int64_t r = 0; r < task.rows; ++r) {
    Real delta = 0;
    if (task.d_output.data) {
      read_row<Real>(task.output, r, task.value_dim, padded, Real(1), output);
      read_row<Real>(task.d_output, r, task.value_dim, padded, Real(1), d_output);
      auto sum = hn::Zero(d);
      for (std::int64_t c = 0; c < padded; c += lanes) {
        // A row without keys has a constant output of zero, so that its gradient is ignored.
        const auto o = hn::Load(d, output + c);
        sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(o, hn::Zero(d)), hn::Mul(o, hn::Load(d, d_output + c))));
      }
      delta = hn::GetLane(hn::SumOfLanes(d, sum));
    }
    if (task.d_logsumexp) delta -= static_cast<const Real*>(task.d_logsumexp)[r];
    const Real logsumexp = static_cast<const Real*>(task.logsumexp)[r];
    static_cast<Real*>(task.delta)[r] = delta;
    static_cast<Real*>(task.reference)[r] = reference_of(logsumexp);
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

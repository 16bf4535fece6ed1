// The dropout rule of core/random.h for whole tiles.
#pragma once

#include <cstring>

#include "cpu/kernels/attention.h"
#include "cpu/kernels/target-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {

// One round of Philox4x32 on vectors of counters.
template <class D, class V = hn::Vec<D>>
HWY_INLINE void philox_round(D d, V (&counter)[4], std::uint32_t key0, std::uint32_t key1) {
  const hn::RepartitionToWide<D> wide;
  const V multiplier0 = hn::Set(d, 0xD2511F53u), multiplier1 = hn::Set(d, 0xCD9E8D57u);
  // 32 x 32 -> 64 bit products of the even and of the odd lanes, split into high and low words.
  const V even0 = hn::BitCast(d, hn::MulEven(counter[0], multiplier0));
  const V odd0 =
      hn::BitCast(d, hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, counter[0]))), multiplier0));
  const V even1 = hn::BitCast(d, hn::MulEven(counter[2], multiplier1));
  const V odd1 =
      hn::BitCast(d, hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, counter[2]))), multiplier1));
  const V high0 = hn::OddEven(odd0, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, even0))));
  const V high1 = hn::OddEven(odd1, hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, even1))));
  const V low0 = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd0))), even0);
  const V low1 = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(hn::BitCast(wide, odd1))), even1);
  counter[0] = hn::Xor(hn::Xor(high1, counter[1]), hn::Set(d, key0));
  counter[1] = low1;
  counter[2] = hn::Xor(hn::Xor(high0, counter[3]), hn::Set(d, key1));
  counter[3] = low0;
}

// keep (rows row_begin .. row_end, columns column_begin .. column_end, as the rule of dropout counts them): 1 where the
// weight stays, 0 where it is dropped. column_begin is a multiple of 16; columns are written in whole groups of 16.
inline void fill_aligned_keep(const ScoreRule& rule, std::int64_t row_begin, std::int64_t row_end,
                              std::int64_t column_begin, std::int64_t column_end, std::uint8_t* HWY_RESTRICT keep,
                              std::int64_t row_stride) {
  const hn::ScalableTag<std::uint32_t> d;
  constexpr std::int64_t kCount = hn::MaxLanes(d);
  constexpr int kRounds = 7;
  const std::uint32_t threshold = rule.dropout.threshold;
  const std::int64_t groups = (column_end - column_begin + 15) / 16 * 4;  // calls per row pair: four for 16 columns
  // A row and the one 8 below share their draws: rows 16 t + i and 16 t + i + 8.
  for (std::int64_t base = row_begin / 16 * 16; base < row_end; base += 16) {
    for (std::int64_t i = 0; i < 8; ++i) {
      const std::int64_t upper = base + i, lower = base + i + 8;
      const bool has_upper = upper >= row_begin && upper < row_end;
      const bool has_lower = lower >= row_begin && lower < row_end;
      if (!has_upper && !has_lower) continue;
      for (std::int64_t g = 0; g < groups; g += kCount) {
        hn::Vec<decltype(d)> counter[4] = {hn::Set(d, static_cast<std::uint32_t>(base / 2 + i)),
                                           hn::Iota(d, static_cast<std::uint32_t>(column_begin / 4 + g)),
                                           hn::Set(d, static_cast<std::uint32_t>(rule.dropout_head)),
                                           hn::Set(d, static_cast<std::uint32_t>(rule.dropout_batch))};
        std::uint32_t key0 = static_cast<std::uint32_t>(rule.dropout.seed);
        std::uint32_t key1 = static_cast<std::uint32_t>(rule.dropout.seed >> 32);
        for (int round = 0; round < kRounds; ++round, key0 += 0x9E3779B9u, key1 += 0xBB67AE85u) {
          philox_round(d, counter, key0, key1);
        }
        alignas(64) std::uint32_t words[4][kCount];
        for (int w = 0; w < 4; ++w) hn::Store(counter[w], d, words[w]);
        const std::int64_t calls = kCount < groups - g ? kCount : groups - g;
        for (std::int64_t c = 0; c < calls; ++c) {
          // Call 4 t + j serves the columns 16 t + 2 j + {0, 1, 8, 9}.
          const std::int64_t column = (g + c) / 4 * 16 + (g + c) % 4 * 2;
          for (int half = 0; half < 2; ++half) {
            if (half == 0 ? !has_upper : !has_lower) continue;
            std::uint8_t* row = keep + ((half == 0 ? upper : lower) - row_begin) * row_stride + column;
            const std::uint32_t near = words[2 * half][c], far = words[2 * half + 1][c];
            row[0] = (near & 0xFFFF) >= threshold;
            row[1] = (near >> 16) >= threshold;
            row[8] = (far & 0xFFFF) >= threshold;
            row[9] = (far >> 16) >= threshold;
          }
        }
      }
    }
  }
}

// The same for queries and keys of the rule's own sequence, whatever their places in the whole one. key_begin is a
// multiple of 16; columns are written in whole groups of 16, up to row_stride.
inline void fill_keep(const ScoreRule& rule, std::int64_t query_begin, std::int64_t query_end, std::int64_t key_begin,
                      std::int64_t key_end, std::uint8_t* HWY_RESTRICT keep, std::int64_t row_stride) {
  const std::int64_t row = rule.dropout_row + query_begin, end = rule.dropout_row + query_end;
  const std::int64_t column = rule.dropout_column + key_begin;
  const std::int64_t shift = column % 16;
  if (shift == 0) return fill_aligned_keep(rule, row, end, column, column + key_end - key_begin, keep, row_stride);
  constexpr std::int64_t kWidth = 128, kHeight = 16;
  std::uint8_t block[kHeight][kWidth + 16];
  const std::int64_t columns = (key_end - key_begin + 15) / 16 * 16;
  for (std::int64_t r = row, rows = 0; r < end; r += rows) {
    const std::int64_t whole = kHeight - r % kHeight;  // rows that share calls are done at once
    rows = end - r < whole ? end - r : whole;
    for (std::int64_t c = 0; c < columns; c += kWidth) {
      const std::int64_t width = columns - c < kWidth ? columns - c : kWidth;
      const std::int64_t first = column - shift + c;
      fill_aligned_keep(rule, r, r + rows, first, first + shift + width, block[0], kWidth + 16);
      for (std::int64_t i = 0; i < rows; ++i) {
        std::memcpy(keep + (r - row + i) * row_stride + c, block[i] + shift, static_cast<std::size_t>(width));
      }
    }
  }
}

// v * scale where keep is set, 0 elsewhere; reads lanes bytes.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V apply_keep(D d, V v, const std::uint8_t* keep, V scale) {
  const hn::RebindToUnsigned<D> whole;
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    const hn::Rebind<std::uint8_t, D> bytes;
    const auto kept = hn::Ne(hn::PromoteTo(whole, hn::LoadU(bytes, keep)), hn::Zero(whole));
    return hn::IfThenElseZero(hn::RebindMask(d, kept), hn::Mul(v, scale));
  } else {
    alignas(64) double factors[hn::MaxLanes(D())];
    for (std::size_t i = 0; i < hn::Lanes(d); ++i) factors[i] = keep[i] ? 1.0 : 0.0;
    return hn::IfThenElseZero(hn::Ne(hn::Load(d, factors), hn::Zero(d)), hn::Mul(v, scale));
  }
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

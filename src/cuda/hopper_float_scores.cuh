// Scores of the float32 kernels on Hopper: a warpgroup's 64 rows by 64 columns, as its products leave them. A thread
// has, per 8 columns, (row, column + {0, 1}) and (row + 8, column + {0, 1}), where column = 2 * (lane % 4).
#pragma once

#include "cuda/hopper_halves.cuh"

namespace headway::inline v0::internal::cuda {

// After a wait: nothing that reads the sums may be moved to before it.
template <int kCount>
__device__ __forceinline__ void hold_sums(float (&sums)[kCount]) {
#pragma unroll
  for (float& sum : sums) asm volatile("" : "+f"(sum)::"memory");
}

// Scores as the left side of a product (64, 64), their rows brought to units of their own.
struct LeftHalves {
  std::uint32_t high[4][4], low[4][4];  // (steps of 16 columns, registers)
  float unit[2];                        // of rows r and r + 8

  __device__ __forceinline__ void take(const float (&values)[32]) {
    float factor[2];
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = 0;
#pragma unroll
      for (int i = 0; i < 16; ++i) largest = fmaxf(largest, fabsf(values[i / 2 * 4 + 2 * h + i % 2]));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      const RowUnit row(largest);
      factor[h] = row.factor;
      unit[h] = row.unit;
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const HalfPair pair(values[2 * i] * factor[i % 2], values[2 * i + 1] * factor[i % 2]);
      high[i / 4][i % 4] = pair.high;
      low[i / 4][i % 4] = pair.low;
    }
  }
};

// What is known of this thread's rows r and r + 8 among the 64 that its warpgroup owns.
template <bool kKeys>
struct ScoreRows {
  float units[2][2];             // (tensor, row): Q and dO, or K and V
  float logsumexp[2], delta[2];  // of queries

  __device__ ScoreRows(const float (&all_units)[2][kHalfRows], const float (&all_logsumexp)[kHalfRows],
                       const float (&all_deltas)[kHalfRows], int warp_row) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = warp_row + fragment_row() + 8 * h;
      units[0][h] = all_units[0][row];
      units[1][h] = all_units[1][row];
      if (!kKeys) logsumexp[h] = all_logsumexp[row];
      if (!kKeys) delta[h] = all_deltas[row];
    }
  }
};

// Two neighbouring columns of an array (64).
__device__ __forceinline__ void read_columns(const float (&array)[kHalfRows], int n, float (&values)[2]) {
  const float2 pair = *reinterpret_cast<const float2*>(array + n * 8 + fragment_column() * 2);
  values[0] = pair.x;
  values[1] = pair.y;
}

// Dropout's bits of a warp's 16 rows from `row` on and 64 columns from `column` on; bit i: element i is kept. Rows are
// keys and columns are queries where kKeys, else the other way round.
template <bool kKeys>
__device__ __forceinline__ std::uint32_t draw_kept(const FloatRule& rule, int row, int column) {
  std::uint32_t kept = 0;
  const int own = row + fragment_row();
#pragma unroll 1
  for (int n = 0; n < 8; n += 2) {
    std::uint32_t bits = 0;  // of 8 elements
    std::array<std::uint32_t, 4> words = {};
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int other = column + n * 8 + fragment_column() * 2 + c;
      // Two neighbouring keys have their draws in the same words.
      if (kKeys || c == 0) words = kKeys ? rule.draw_words(other, own) : rule.draw_words(own, other);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int right = i / 2, h = i % 2;
        const std::uint32_t word = words[static_cast<std::size_t>(kKeys ? 2 * right + h : 2 * h + right)];
        const bool is_odd = (kKeys ? own : other) % 2 != 0;
        bits |= (rule.keeps(word, is_odd) ? 1u : 0u) << (right * 4 + 2 * h + c);
      }
    }
    kept |= bits << (n * 4);
  }
  return kept;
}

// One tile of scores of a warp's 16 rows from `row` on and 64 columns from `column` on. Rows are keys and columns are
// queries where kKeys, else the other way round.
template <bool kKeys>
struct ScoreTile {
  const FloatRule& rule;
  const ScoreRows<kKeys>& rows;
  int row, column;
  bool all;                  // are seen
  std::uint32_t kept = ~0u;  // bit i: dropout keeps element i

  __device__ __forceinline__ ScoreTile(const FloatRule& its_rule, const ScoreRows<kKeys>& its_rows, int first_row,
                                       int first_column)
      : rule(its_rule), rows(its_rows), row(first_row), column(first_column) {
    if constexpr (kKeys) {
      all = Sight(rule, column, column + kHalfRows).sees_all(row, row + 16);
    } else {
      all = Sight(rule, row, row + 16).sees_all(column, column + kHalfRows);
    }
    if (rule.threshold != 0) kept = draw_kept<kKeys>(rule, row, column);
  }

  // Products become weights without dropout.
  __device__ __forceinline__ void find_weights(const float (&units)[2][kHalfRows], const float (&logsumexp)[kHalfRows],
                                               float (&scores)[32]) const {
    const float factors[2] = {rows.units[0][0] * rule.scale, rows.units[0][1] * rule.scale};
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float unit[2], reference[2];
      read_columns(units[0], n, unit);
      if constexpr (kKeys) read_columns(logsumexp, n, reference);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int h = i / 2, c = i % 2;
        const float exponent =
            fmaf(scores[n * 4 + i] * unit[c], factors[h], -(kKeys ? reference[c] : rows.logsumexp[h]));
        scores[n * 4 + i] = power_of_two(exponent * kLog2E);
      }
    }
    if (!all) hide(scores);
  }

  // Weights of scores that do not count become 0.
  __device__ __forceinline__ void hide(float (&weights)[32]) const {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const int own = row + fragment_row() + i % 4 / 2 * 8;
      const int other = column + i / 4 * 8 + fragment_column() * 2 + i % 2;
      const bool seen = kKeys ? rule.seen_keys(other).has(own) : rule.seen_keys(own).has(other);
      weights[i] = seen ? weights[i] : 0.f;
    }
  }

  // Weights with dropout as the left side of dV, in units of dO's rows.
  __device__ __forceinline__ void take_weights(const float (&units)[2][kHalfRows], const float (&weights)[32],
                                               LeftHalves& left) const {
    float scaled[32];
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float unit[2];
      read_columns(units[1], n, unit);
#pragma unroll
      for (int i = 0; i < 4; ++i) scaled[n * 4 + i] = weights[n * 4 + i] * unit[i % 2];
    }
    if (rule.threshold != 0) {
#pragma unroll
      for (int i = 0; i < 32; ++i) scaled[i] = kept >> i & 1u ? scaled[i] * rule.keep_scale : 0.f;
    }
    left.take(scaled);
  }

  // dP becomes dS without the scale, in units of the streamed Q's or K's rows. Under a mask dP may be NaN; a visible
  // NaN must reach the result.
  __device__ __forceinline__ void find_d_scores(const float (&units)[2][kHalfRows], const float (&deltas)[kHalfRows],
                                                const float (&weights)[32], float (&d_scores)[32]) const {
    if (rule.threshold != 0) {
#pragma unroll
      for (int i = 0; i < 32; ++i) d_scores[i] = kept >> i & 1u ? d_scores[i] * rule.keep_scale : 0.f;
    }
#pragma unroll
    for (int n = 0; n < 8; ++n) {
      float unit[2], d_unit[2], delta[2];
      read_columns(units[0], n, unit);
      read_columns(units[1], n, d_unit);
      if constexpr (kKeys) read_columns(deltas, n, delta);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int h = i / 2, c = i % 2;
        const float d_weight = d_scores[n * 4 + i] * d_unit[c];
        const float difference = fmaf(d_weight, rows.units[1][h], -(kKeys ? delta[c] : rows.delta[h]));
        d_scores[n * 4 + i] = weights[n * 4 + i] * difference * unit[c];
      }
    }
    if (all) return;
#pragma unroll
    for (int i = 0; i < 32; ++i) d_scores[i] = weights[i] > 0.f ? d_scores[i] : weights[i];
  }
};

}  // namespace headway::inline v0::internal::cuda

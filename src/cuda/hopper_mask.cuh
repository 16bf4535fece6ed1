// The operations between Q K^T and the softmax, on a thread's share of a block of scores: value i is in row `row` + 8 *
// (i / 2 % 2) and column `column` + 8 * (i / 4) + i % 2, both counted inside the sequence.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/hopper_planes.cuh"
#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_schedule.cuh"

namespace headway::inline v0::internal::cuda {

// Scores that the lengths, a causal mask or a window hide become -infinity, whatever they were.
template <class S>
__device__ __forceinline__ void hide_outside(float (&scores)[S::kKeys / 2], const HopperSequence& limits, int row,
                                             int column) {
  const bool has_low = S::kLimits && limits.low > -kNoLimit;
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const int q = row + 8 * r;
    const int high = (S::kLimits ? min(q + limits.high, limits.key_count - 1) : limits.key_count - 1) - column;
#pragma unroll
    for (int i = 2 * r; i < S::kKeys / 2; i += i % 2 == 0 ? 1 : 3) {
      if (i / 4 * 8 + i % 2 > high) scores[i] = -INFINITY;
    }
    if (!has_low) continue;
    const int low = q + limits.low - column;
#pragma unroll
    for (int i = 2 * r; i < S::kKeys / 2; i += i % 2 == 0 ? 1 : 3) {
      if (i / 4 * 8 + i % 2 < low) scores[i] = -INFINITY;
    }
  }
}

struct NoBlock {};

// Everything between Q K^T and the limits. Planes are read, and their elements handed to the threads that need them,
// before the scores are there, where registers allow it.
template <class S>
struct ScoreInputs {
  using T = typename S::Element;
  static constexpr bool kMixed = S::kBias && S::kMask;  // made for any options: looks which there are
  std::conditional_t<S::kBias && !kMixed, BiasBlock<T, S::kKeys>, NoBlock> bias;
  std::conditional_t<S::kMask && !kMixed, MaskBlock<S::kKeys>, NoBlock> mask;
  float slope_log2;  // of ALiBi

  // Once a tile.
  __device__ __forceinline__ void begin(const ForwardParams& p, const ForwardWork& work, int row,
                                        std::uint32_t bias_memory) {
    if constexpr (S::kBias && !kMixed) bias.begin(p, work, row, bias_memory);
    if constexpr (S::kMask && !kMixed) mask.begin(p, work, row);
    if constexpr (S::kScores) {
      const double* slopes = p.options.alibi_slopes;
      const std::int64_t at = static_cast<std::int64_t>(work.sequence) * p.heads + work.head;
      slope_log2 = slopes ? static_cast<float>(slopes[at] * 1.4426950408889634) : 0.f;
    }
  }

  // Before anything of a tile's first block.
  __device__ __forceinline__ void read_first(int column) const {
    if constexpr (S::kBias && !kMixed) bias.template read<true>(column);
  }

  // Before the block's product is issued.
  __device__ __forceinline__ void read(int column) {
    if constexpr (S::kMask && !kMixed) mask.read(column);
  }

  // After it is issued.
  __device__ __forceinline__ void prepare() {
    if constexpr (S::kMask && !kMixed) mask.prepare();
  }

  // Leaves the scores times log2(e) where S::kInBase2. has_next: another block, the one before this, comes next.
  __device__ __forceinline__ void apply(const ForwardParams& p, const ForwardWork& work, int row, int column,
                                        bool has_next, float (&scores)[S::kKeys / 2]) {
    if constexpr (S::kInBase2) {
#pragma unroll
      for (int i = 0; i < S::kKeys / 2; ++i) scores[i] *= p.scale_log2;
    }
    if constexpr (S::kScores) cap_and_slope(p.options, work, row, column, scores);
    if constexpr (kMixed) {
      if (p.options.bias.data) add_bias(p, work, row, column, scores);
      if (p.options.mask.data) hide_masked(p, work, row, column, scores);
    } else if constexpr (S::kBias) {
      bias.apply(p.options.inverse_scale, scores);
      if (warps_condition(has_next)) bias.template read<false>(column - S::kKeys);
    } else if constexpr (S::kMask) {
      mask.apply(p.options.mask_true_keeps, scores);
    }
  }

  // Softcap and ALiBi.
  __device__ __forceinline__ void cap_and_slope(const ScoreOptions& options, const ForwardWork& work, int row,
                                                int column, float (&scores)[S::kKeys / 2]) const {
    if (options.softcap_log2 != 0.f) {
#pragma unroll
      for (int i = 0; i < S::kKeys / 2; ++i) {
        // tanh(x) = 1 - 2 / (1 + exp(2 x)), to 1e-6 of 1
        const float growth = exp2_approximate(2.f * options.inverse_softcap * scores[i]);
        scores[i] = options.softcap_log2 * (1.f - __fdividef(2.f, 1.f + growth));
      }
    }
    if (slope_log2 == 0.f) return;
    const float distance = static_cast<float>(column - row - work.limits.query_offset);
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      const float apart = distance + static_cast<float>(i / 4 * 8 + i % 2 - 8 * (i / 2 % 2));
      scores[i] = fmaf(-slope_log2, fabsf(apart), scores[i]);
    }
  }

  // A bias of either type, element by element.
  __device__ __forceinline__ void add_bias(const ForwardParams& p, const ForwardWork& work, int row, int column,
                                           float (&scores)[S::kKeys / 2]) const {
    const ScoreOptions& options = p.options;
    const PlaneRows rows(options.bias, p, work, row);
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      const std::int64_t at = rows.element(i / 2 % 2, column + i / 4 * 8 + i % 2);
      const float value = options.bias_is_float ? static_cast<const float*>(options.bias.data)[at]
                                                : to_compute(static_cast<const T*>(options.bias.data)[at]);
      scores[i] = value <= -1e30f ? -INFINITY : fmaf(value, 1.4426950408889634f, scores[i]);
    }
  }

  // The mask, element by element.
  __device__ __forceinline__ void hide_masked(const ForwardParams& p, const ForwardWork& work, int row, int column,
                                              float (&scores)[S::kKeys / 2]) const {
    const ScoreOptions& options = p.options;
    const PlaneRows rows(options.mask, p, work, row);
#pragma unroll
    for (int i = 0; i < S::kKeys / 2; ++i) {
      const std::int64_t at = rows.element(i / 2 % 2, column + i / 4 * 8 + i % 2);
      const bool is_set = static_cast<const std::uint8_t*>(options.mask.data)[at] != 0;
      if (is_set != options.mask_true_keeps) scores[i] = -INFINITY;
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

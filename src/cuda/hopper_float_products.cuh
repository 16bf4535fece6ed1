// Products of the float32 kernels on Hopper by float16 halves, each of three warpgroup products.
//
// A product's sums are kept short, because tensor cores truncate when they add: each is 64 deep, the small terms first,
// and its results are summed outside with rounding.
#pragma once

#include "cuda/hopper_float_scores.cuh"
#include "cuda/hopper_wgmma.cuh"

namespace headway::inline v0::internal::cuda {

// The high parts of a warp's 16 own rows, of one tensor, as the left side of products.
template <int kDim>
struct OwnHigh {
  std::uint32_t at[kDim / 16][4];  // (steps of 16 columns, registers)

  // From rows `warp_row` on of a tile.
  template <int kTensors>
  __device__ __forceinline__ void load(const HalfTile<kDim, kTensors>& tile, int tensor, int warp_row) {
#pragma unroll
    for (int s = 0; s < kDim / 16; ++s) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = warp_row + fragment_row() + i % 2 * 8, byte = s * 32 + i / 2 * 16 + fragment_column() * 4;
        at[s][i] = *reinterpret_cast<const std::uint32_t*>(tile.tensors[tensor] + swizzled(row, byte));
      }
    }
  }
};

// Starts scores (64, 64) = owned (64, kDim) times streamed (64, kDim), transposed. The high parts of `owned` come from
// registers where kInRegisters: products of 64 columns with both sides in shared memory are as slow as its reads.
template <bool kInRegisters, int kDim, int kTensors>
__device__ __forceinline__ void issue_scores(float (&scores)[32], const HalfTile<kDim, kTensors>& owned,
                                             const OwnHigh<kDim>& high, const HalfTile<kDim>& streamed, int tensor) {
  constexpr int kLow = HalfTile<kDim>::kLowAt, kCount = kDim / 16;  // steps of 16 columns
  const std::uint32_t left = operand(shared_address(owned.tensors[tensor]), 0);
  const std::uint32_t right = operand(shared_address(streamed.tensors[tensor]), 0);
  const auto add_high = [&](int s, int at) {
    if constexpr (kInRegisters) {
      wgmma_rs<__half, Major::inner>(scores, high.at[s], descriptor(right, at + s * 32));
    } else {
      wgmma_ss<__half>(scores, descriptor(left, s * 32), descriptor(right, at + s * 32));
    }
  };
  wgmma_ss_first<__half>(scores, descriptor(left, kLow), descriptor(right, 0));
#pragma unroll
  for (int s = 1; s < kCount; ++s) {
    wgmma_ss<__half>(scores, descriptor(left, kLow + s * 32), descriptor(right, s * 32));
  }
#pragma unroll
  for (int s = 0; s < kCount; ++s) add_high(s, kLow);
#pragma unroll
  for (int s = 0; s < kCount; ++s) add_high(s, 0);
  wgmma_commit();
}

// What one step adds to sums of a warpgroup's rows: (64, kDim).
template <int kDim>
struct StepSums {
  LeftHalves left;
  float part[kDim / 2];

  // Starts left (64, 64) times streamed (64, kDim).
  __device__ __forceinline__ void issue(const HalfTile<kDim>& streamed, int tensor) {
    constexpr int kStepBytes = 16 * 128;
    const std::uint32_t high = operand(shared_address(streamed.tensors[tensor]), 0);
    const std::uint32_t low = operand(shared_address(streamed.tensors[tensor]) + HalfTile<kDim>::kLowAt, 0);
    if constexpr (kDim == 64) {
      wgmma_rs_first<__half>(part, left.low[0], descriptor(high, 0));
    } else {
#pragma unroll
      for (float& value : part) value = 0.f;
      wgmma_fence();
      wgmma_rs<__half>(part, left.low[0], descriptor(high, 0));
    }
#pragma unroll
    for (int s = 1; s < 4; ++s) wgmma_rs<__half>(part, left.low[s], descriptor(high, s * kStepBytes));
#pragma unroll
    for (int s = 0; s < 4; ++s) wgmma_rs<__half>(part, left.high[s], descriptor(low, s * kStepBytes));
#pragma unroll
    for (int s = 0; s < 4; ++s) wgmma_rs<__half>(part, left.high[s], descriptor(high, s * kStepBytes));
    wgmma_commit();
  }

  // After the wait for its product: sums += this.
  __device__ __forceinline__ void add_to(float (&sums)[1][kDim / 8][4]) {
    hold_sums(part);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) {
      float& sum = sums[0][i / 4][i % 4];
      sum = fmaf(part[i], left.unit[i % 4 / 2], sum);
    }
  }
  // After the wait for its product: sums = sums * factors + this. factors: of rows r and r + 8
  __device__ __forceinline__ void add_to(float (&sums)[1][kDim / 8][4], const float (&factors)[1][2]) {
    hold_sums(part);
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) {
      float& sum = sums[0][i / 4][i % 4];
      sum = fmaf(part[i], left.unit[i % 4 / 2], sum * factors[0][i % 4 / 2]);
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

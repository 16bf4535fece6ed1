// Dropout of elements on a GPU: eight neighbours for each lane of a warp.
#pragma once

#include <cstdint>

#include "core/random.h"
#include "cuda/element.cuh"

namespace headway::inline v0::internal::cuda {

__device__ inline float multiply_rounded(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double multiply_rounded(double a, double b) { return __dmul_rn(a, b); }

// Bit j says whether element first + j stays. All lanes of a warp call it, and 16 of them in a row have the 16 eights
// of one block of 128 elements, in order.
__device__ inline std::uint32_t kept_of_eight(const ElementDropout& rule, std::int64_t first) {
  constexpr int kCalls = ElementDropout::kCalls, kDraws = 8;
  static_assert(ElementDropout::kBlock == kCalls * kDraws);
  const int lane = static_cast<int>(threadIdx.x % 32), place = lane % kCalls;
  // Each lane makes one call, whose draws are those of elements place, place + 16, ... of the block.
  const auto call = static_cast<std::uint64_t>(first / ElementDropout::kBlock * kCalls + place);
  const auto words = philox4x32_7(
      {static_cast<std::uint32_t>(call), static_cast<std::uint32_t>(call >> 32), 0, ElementDropout::kDomain},
      philox_key(rule.seed));
  // A lane's own eight are 8 * place, ...: draw number place / 2 of eight neighbouring lanes.
  std::uint32_t kept = 0;
#pragma unroll
  for (int draw = 0; draw < kDraws; ++draw) {
    const std::uint32_t value = draw % 2 == 0 ? words[draw / 2] & 0xFFFF : words[draw / 2] >> 16;
    const std::uint32_t lanes = __ballot_sync(0xFFFFFFFF, value >= rule.threshold);
    if (draw == place / 2) kept = lanes;
  }
  return kept >> (lane / kCalls * kCalls + place % 2 * kDraws) & 0xFF;
}

// x * scale where it stays, rounded before it is added to anything, as on every device; else zero.
template <typename Real>
__device__ Real dropped(Real x, bool stays, Real scale) {
  return stays ? multiply_rounded(x, scale) : Real(0);
}

}  // namespace headway::inline v0::internal::cuda

// Warpgroup products (wgmma) of bfloat16 and float16: 64 rows a warpgroup, one step of 16 in the inner dimension, sums
// in float32. A thread holds, per 8 columns, the elements (row, column + {0, 1}) and (row + 8, column + {0, 1}), where
// row = 16 * warp + lane / 4 and column = 2 * (lane % 4).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

namespace headway::inline v0::internal::cuda {

namespace wgmma_bf16 {
#define HEADWAY_WGMMA_TYPE "bf16"
#include "cuda/hopper_wgmma_sizes.cuh"
#undef HEADWAY_WGMMA_TYPE
}  // namespace wgmma_bf16
namespace wgmma_f16 {
#define HEADWAY_WGMMA_TYPE "f16"
#include "cuda/hopper_wgmma_sizes.cuh"
#undef HEADWAY_WGMMA_TYPE
}  // namespace wgmma_f16

// Whether B, and A where it lies in shared memory, runs along the inner dimension or across it.
enum class Major { inner, outer };

// D += A B, both from shared memory. D: (64, 2 * kCount)
template <typename T, Major kMajor = Major::inner, int kCount>
__device__ __forceinline__ void wgmma_ss(float (&d)[kCount], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    wgmma_f16::wgmma_ss<kMajor == Major::outer>(d, a, b);
  } else {
    wgmma_bf16::wgmma_ss<kMajor == Major::outer>(d, a, b);
  }
}

// The first step: D = A B. D: (64, 2 * kCount)
template <typename T, Major kMajor = Major::inner, int kCount>
__device__ __forceinline__ void wgmma_ss_first(float (&d)[kCount], std::uint64_t a, std::uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    wgmma_f16::wgmma_ss_first<kMajor == Major::outer>(d, a, b);
  } else {
    wgmma_bf16::wgmma_ss_first<kMajor == Major::outer>(d, a, b);
  }
}

// D += A B, A from registers: the packed accumulators of 16 columns. D: (64, 2 * kCount)
template <typename T, Major kMajor = Major::outer, int kCount>
__device__ __forceinline__ void wgmma_rs(float (&d)[kCount], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    wgmma_f16::wgmma_rs<kMajor == Major::outer>(d, a, b);
  } else {
    wgmma_bf16::wgmma_rs<kMajor == Major::outer>(d, a, b);
  }
}

// The first step: D = A B, A from registers. D: (64, 2 * kCount)
template <typename T, Major kMajor = Major::outer, int kCount>
__device__ __forceinline__ void wgmma_rs_first(float (&d)[kCount], const std::uint32_t (&a)[4], std::uint64_t b) {
  if constexpr (std::is_same_v<T, __half>) {
    wgmma_f16::wgmma_rs_first<kMajor == Major::outer>(d, a, b);
  } else {
    wgmma_bf16::wgmma_rs_first<kMajor == Major::outer>(d, a, b);
  }
}

// What is issued between a fence and a commit is one group; a fence comes before the first product that reads registers
// which other instructions wrote.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most kLeft groups are under way.
template <int kLeft>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// Waits for all groups; their sums D are used from here on.
template <int kCount>
__device__ __forceinline__ void wgmma_wait_all(float (&d)[kCount]) {
  wgmma_wait<0>();
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The moving low word of a shared-memory operand in the 128-byte swizzle; `leading` are the bytes between 64-column
// chunks where the operand is Major::outer, else unused.
__device__ __forceinline__ std::uint32_t operand(std::uint32_t address, int leading) {
  std::uint32_t low = ((address & 0x3FFFF) >> 4) | (static_cast<std::uint32_t>(leading >> 4) << 16);
  asm volatile("" : "+r"(low));  // or the compiler keeps one register for each step's descriptor
  return low;
}

// The descriptor of an operand `byte_offset` further on; the high word holds 1024 bytes between groups of 8 rows and
// the swizzle.
__device__ __forceinline__ std::uint64_t descriptor(std::uint32_t operand, int byte_offset) {
  std::uint64_t result;
  asm("mov.b64 %0, {%1, %2};" : "=l"(result) : "r"(operand + (byte_offset >> 4)), "r"((1u << 30) | (1024u >> 4)));
  return result;
}

// Issues D = A B as one group, both from shared memory and across the inner dimension, which has kDepth elements. D:
// (64, 2 * kCount)
template <typename T, int kDepth, int kCount>
__device__ __forceinline__ void issue_outer_product(float (&d)[kCount], std::uint32_t a, std::uint32_t b) {
#pragma unroll
  for (int k = 0; k < kDepth / 16; ++k) {
    if (k == 0) {
      wgmma_ss_first<T, Major::outer>(d, descriptor(a, 0), descriptor(b, 0));
    } else {
      wgmma_ss<T, Major::outer>(d, descriptor(a, k * 2048), descriptor(b, k * 2048));
    }
  }
  wgmma_commit();
}

}  // namespace headway::inline v0::internal::cuda

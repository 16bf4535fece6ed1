// Products of a warp (mma.sync) of bfloat16 and float16, and the copies that feed them.
//
// Of a product's operands, lane l has row l / 4 and there, of every 16 inner places, four: 2 * (l % 4) + {0, 1} and 8
// more. Which column of a tensor stands at which inner place is free as long as both operands agree, and so a lane
// takes 16 contiguous bytes, the columns 32 * i + 8 * (l % 4) to + 7 of its row: they are its share of two steps of 16.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/hopper_ptx.cuh"
#include "headway/tensor.h"

namespace headway::inline v0::internal::cuda {

inline constexpr float kLog2e = 1.4426950408889634f;

// D += A B: A (16, 16) rows l / 4 and l / 4 + 8, B (16, 8) column l / 4, D (16, 8) float32: rows l / 4 (d[0], d[1]) and
// l / 4 + 8 (d[2], d[3]), columns 2 * (l % 4) + {0, 1}.
template <typename T>
__device__ __forceinline__ void multiply_add(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                             std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  if constexpr (std::is_same_v<T, __half>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// Two steps of 16: a lane's 16 bytes of rows l / 4 (`upper`) and l / 4 + 8 (`lower`) of A, and of column l / 4 of B.
template <typename T>
__device__ __forceinline__ void multiply_add_columns(float (&d)[4], uint4 upper, uint4 lower, uint4 b) {
  multiply_add<T>(d, upper.x, lower.x, upper.y, lower.y, b.x, b.y);
  multiply_add<T>(d, upper.z, lower.z, upper.w, lower.w, b.z, b.w);
}

// 16 bytes of global memory that are read once; zeros where not `inside`.
__device__ __forceinline__ uint4 load_once(const void* address, bool inside) {
  uint4 v;
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\nmov.u32 %0, 0;\nmov.u32 %1, 0;\nmov.u32 %2, 0;\nmov.u32 %3, 0;\n"
      "@p ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
      : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
      : "l"(address), "r"(static_cast<int>(inside)));
  return v;
}

// Rows of one head of one sequence, read 16 bytes at a time.
template <typename T>
struct StreamRows {
  const T* data;  // row 0
  std::int64_t stride;
  int end;      // rows from here on are zeros
  int columns;  // likewise

  __device__ __forceinline__ uint4 load(int row, int column) const {
    return load_once(data + row * stride + column, row < end && column < columns);
  }
};

// True where the rows of a (batch, heads, rows, columns) tensor of 16-bit elements can be read so.
inline bool has_aligned_rows(const Tensor& tensor) {
  if (reinterpret_cast<std::uintptr_t>(tensor.raw_data()) % 16 != 0 || tensor.size(3) % 8 != 0) return false;
  for (int dim = 0; dim < 3; ++dim) {
    if (tensor.size(dim) > 1 && tensor.stride(dim) % 8 != 0) return false;
  }
  return true;
}

// Starts the copy of 16 bytes into shared memory; zeros come where not `inside`.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// Ends a group of copies; waits until at most kLeft of this thread's groups are under way.
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

// The low halves of two words, and the high halves: the first word's in the low half.
__device__ __forceinline__ std::uint32_t low_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x5410);
}
__device__ __forceinline__ std::uint32_t high_halves(std::uint32_t a, std::uint32_t b) {
  return __byte_perm(a, b, 0x7632);
}

}  // namespace headway::inline v0::internal::cuda

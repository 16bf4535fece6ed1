// Products of float32 tiles on tensor cores, each by three products in TF32, from compute capability 8.0 on.
//
// A number is high + low: high is the number rounded to TF32's 11 significant bits, low is what is left. Of the four
// products of two such sums, low * low is below float32's last bit and left out. Tensor cores truncate when they add,
// so their sums are kept short: one product is kDepth deep, large and small terms apart, and its results are summed
// outside with rounding.
//
// Tiles lie in shared memory as (rows, kDim + kPadding): all fragments below are then read without bank conflicts.
#pragma once

#include <cstdint>

#include "cuda/attention_score.cuh"

namespace headway::inline v0::internal::cuda {

// ---- instructions ----

// sums (16, 8) += left (16, 8) right (8, 8), in TF32 with float32 sums.
__device__ inline void multiply_tf32(float (&sums)[4], const std::uint32_t (&left)[4],
                                     const std::uint32_t (&right)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};\n"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right[0]), "r"(right[1]));
}

// Starts a copy of 16 bytes to shared memory; zeros where it is not `wanted`.
__device__ inline void copy_16_bytes(float* target, const float* source, bool wanted) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(target))),
               "l"(source), "r"(wanted ? 16 : 0)
               : "memory");
}

// The copies that this thread has started since the last call are one group.
__device__ inline void close_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

// Waits until at most kOpen groups of this thread's copies are under way.
template <int kOpen>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kOpen) : "memory");
}

// 2^x to two units in the last place; results below the normal numbers are 0. Volatile, so that no branch is made of a
// condition on its result.
__device__ inline float power_of_two(float x) {
  float result;
  asm volatile("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(result) : "f"(x));
  return result;
}

// ---- fragments ----

inline constexpr int kDepth = 32;          // of one product
inline constexpr int kSteps = kDepth / 8;  // instructions that make it up
inline constexpr int kPadding = 4;         // columns

// This thread's row and column of a fragment: rows 0 to 7, columns 0 to 3.
__device__ inline int fragment_row() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ inline int fragment_column() { return static_cast<int>(threadIdx.x) % 4; }

// value = high + low; NaN and infinity become NaN.
__device__ inline void split(float value, std::uint32_t& high, std::uint32_t& low) {
  constexpr std::uint32_t kHalf = 0x1000, kKept = 0xFFFFE000;  // half of TF32's last bit, and its bits
  high = (__float_as_uint(value) + kHalf) & kKept;
  low = __float_as_uint(value - __uint_as_float(high));
}

// The left side of a product: (kTiles * 16, kDepth).
template <int kTiles>
struct LeftFragments {
  std::uint32_t high[kTiles][kSteps][4];
  std::uint32_t low[kTiles][kSteps][4];

  // Rows from `row` and columns from `column` on of a tile.
  template <int kStride>
  __device__ void load(const float* tile, int row, int column) {
    const float* source = tile + (row + fragment_row()) * kStride + column + fragment_column();
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          split(source[(m * 16 + i % 2 * 8) * kStride + s * 8 + i / 2 * 4], high[m][s][i], low[m][s][i]);
        }
      }
    }
  }

  // Results of products as the left side of the next: its columns 2t and 2t + 1 of each eight stand at t and t + 4.
  __device__ void take(const float (&sums)[kTiles][kSteps][4]) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) split(sums[m][s][i % 2 * 2 + i / 2], high[m][s][i], low[m][s][i]);
      }
    }
  }
};

// The right side of a product: (kDepth, 8).
struct RightFragments {
  std::uint32_t high[kSteps][2];
  std::uint32_t low[kSteps][2];

  // Eight rows of a tile from `row` on, transposed, and its columns from `column` on.
  template <int kStride>
  __device__ void load_transposed(const float* tile, int row, int column) {
    const float* source = tile + (row + fragment_row()) * kStride + column + fragment_column();
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      split(source[s * 8], high[s][0], low[s][0]);
      split(source[s * 8 + 4], high[s][1], low[s][1]);
    }
  }

  // Eight columns of a tile from `column` on, and its first kDepth rows in the order of LeftFragments::take.
  template <int kStride>
  __device__ void load(const float* tile, int column) {
    const float* source = tile + 2 * fragment_column() * kStride + column + fragment_row();
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      split(source[s * 8 * kStride], high[s][0], low[s][0]);
      split(source[(s * 8 + 1) * kStride], high[s][1], low[s][1]);
    }
  }
};

// result (kTiles * 16, 8) = left right. A thread has, of each 16 rows r and r + 8 and of the columns 2t and 2t + 1:
// (r, 2t), (r, 2t + 1), (r + 8, 2t), (r + 8, 2t + 1).
template <int kTiles>
__device__ void multiply(float (&result)[kTiles][4], const LeftFragments<kTiles>& left, const RightFragments& right) {
  float small[kTiles][4] = {}, large[kTiles][4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      multiply_tf32(small[m], left.high[m][s], right.low[s]);
      multiply_tf32(large[m], left.high[m][s], right.high[s]);
    }
#pragma unroll
    for (int m = 0; m < kTiles; ++m) multiply_tf32(small[m], left.low[m][s], right.high[s]);
  }
#pragma unroll
  for (int m = 0; m < kTiles; ++m) {
#pragma unroll
    for (int i = 0; i < 4; ++i) result[m][i] = small[m][i] + large[m][i];
  }
}

// ---- tiles ----

// Rows of one head of one sequence: (count, columns), the last dimension contiguous.
struct FloatRows {
  float* data;
  int stride, count, columns;

  __device__ float* at(int row) const { return data + static_cast<std::int64_t>(row) * stride; }
};

// The rows of a head from `first_row` on.
__device__ inline FloatRows float_rows(const HeadRows& rows, std::int64_t batch, std::int64_t head,
                                       std::int64_t first_row, std::int64_t count, std::int64_t columns) {
  const std::int64_t offset = batch * rows.batch_stride + head * rows.head_stride + first_row * rows.row_stride;
  return {static_cast<float*>(rows.data) + offset, static_cast<int>(rows.row_stride), static_cast<int>(count),
          static_cast<int>(columns)};
}

// Warps of a block, each with kTiles * 16 rows of its own, over columns padded to kDim.
template <int kDim_, int kWarps_, int kTiles_>
struct FloatShape {
  static constexpr int kDim = kDim_;
  static constexpr int kWarps = kWarps_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kWarpRows = 16 * kTiles;
  static constexpr int kRows = kWarpRows * kWarps;
  static constexpr int kColumnTiles = kDim / 8;
  static constexpr int kStride = kDim + kPadding;
  static constexpr int kStreamed = kDepth * kStride;  // elements of a tile that passes by
  static constexpr int kOwned = kRows * kStride;      // elements of a tile that stays
  static constexpr int kBlocks = (kTiles == 2 || kDim > 64 ? 256 : 384) / kThreads;  // on a multiprocessor

  // The first of this warp's rows in the block's tile.
  static __device__ int warp_row() { return static_cast<int>(threadIdx.x) / 32 * kWarpRows; }

  // Starts the copy of rows [first, first + kCount) to tile (kCount, kStride); zeros outside.
  template <int kCount>
  static __device__ void copy_rows(float* tile, const FloatRows& rows, int first) {
    constexpr int kLanes = kDim / 4;  // threads of a row
    constexpr int kStep = kThreads / kLanes;
    const int row = static_cast<int>(threadIdx.x) / kLanes, column = static_cast<int>(threadIdx.x) % kLanes * 4;
    const float* source = rows.at(first + row) + column;
    const std::int64_t step = static_cast<std::int64_t>(kStep) * rows.stride;
    const int count = column < rows.columns ? rows.count - first : 0;
#pragma unroll
    for (int i = 0; i < kCount / kStep; ++i, source += step) {
      const int r = row + i * kStep;
      copy_16_bytes(tile + r * kStride + column, r < count ? source : rows.data, r < count);
    }
  }

  // scores (kWarpRows, kDepth) = the warp's rows of `owned` times the rows of `streamed`, transposed.
  static __device__ void score(float (&scores)[kTiles][kSteps][4], const float* owned, const float* streamed) {
#pragma unroll
    for (int c = 0; c < kDim; c += kDepth) {
      LeftFragments<kTiles> left;
      left.template load<kStride>(owned, warp_row(), c);
#pragma unroll
      for (int n = 0; n < kSteps; ++n) {
        RightFragments right;
        right.template load_transposed<kStride>(streamed, n * 8, c);
        float part[kTiles][4];
        multiply(part, left, right);
#pragma unroll
        for (int m = 0; m < kTiles; ++m) {
#pragma unroll
          for (int i = 0; i < 4; ++i) scores[m][n][i] = c == 0 ? part[m][i] : scores[m][n][i] + part[m][i];
        }
      }
    }
  }

  // sums (kWarpRows, kDim) = sums * factors + left (kWarpRows, kDepth) streamed (kDepth, kDim). factors: of rows r, r+8
  static __device__ void accumulate(float (&sums)[kTiles][kColumnTiles][4], const float (&factors)[kTiles][2],
                                    const float (&left)[kTiles][kSteps][4], const float* streamed) {
    LeftFragments<kTiles> fragments;
    fragments.take(left);
#pragma unroll
    for (int n = 0; n < kColumnTiles; ++n) {
      RightFragments right;
      right.load<kStride>(streamed, n * 8);
      float part[kTiles][4];
      multiply(part, fragments, right);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[m][n][i] = fmaf(sums[m][n][i], factors[m][i / 2], part[m][i]);
      }
    }
  }
  static __device__ void accumulate(float (&sums)[kTiles][kColumnTiles][4], const float (&left)[kTiles][kSteps][4],
                                    const float* streamed) {
    float ones[kTiles][2];
#pragma unroll
    for (int m = 0; m < kTiles; ++m) ones[m][0] = ones[m][1] = 1.f;
    accumulate(sums, ones, left, streamed);
  }

  // Writes this thread's part of sums * factors to the rows from `first` on that are below the count. Bit 2m + h of the
  // result is set where row r + 8h of tile m is written and holds something that is not finite.
  static __device__ unsigned write_rows(const float (&sums)[kTiles][kColumnTiles][4], const float (&factors)[kTiles][2],
                                        const FloatRows& rows, int first) {
    unsigned not_finite = 0;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = first + m * 16 + h * 8 + fragment_row();
        if (row >= rows.count) continue;
        float* target = rows.at(row);
        bool is_finite = true;
#pragma unroll
        for (int n = 0; n < kColumnTiles; ++n) {
          const int c = n * 8 + fragment_column() * 2;
          const float2 pair = {sums[m][n][2 * h] * factors[m][h], sums[m][n][2 * h + 1] * factors[m][h]};
          is_finite = is_finite && isfinite(pair.x) && isfinite(pair.y);
          if (c < rows.columns) *reinterpret_cast<float2*>(target + c) = pair;
        }
        not_finite |= is_finite ? 0u : 1u << (2 * m + h);
      }
    }
    return not_finite;
  }

  // Calls repair(row) with the whole warp for each of its rows for which a thread has a bit set.
  template <typename Repair>
  static __device__ void repair_rows(unsigned not_finite, int first, const Repair& repair) {
    if (!__any_sync(0xFFFFFFFFu, not_finite != 0)) return;
    __syncwarp();  // what was written before
    for (int r = 0; r < kWarpRows; ++r) {
      const bool mine = r % 8 == fragment_row() && (not_finite >> (r / 8) & 1u) != 0;
      if (__any_sync(0xFFFFFFFFu, mine)) repair(first + r);
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

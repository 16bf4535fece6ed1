// A bias or a mask of a block of scores, read sixteen bytes at a time before the scores are there, and handed around
// among the four threads that share a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/hopper_schedule.cuh"

namespace headway::inline v0::internal::cuda {

// Two neighbouring 16-bit elements as float32.
template <typename T>
__device__ __forceinline__ float2 unpack(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, __half>) {
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(pair))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)))};
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
  }
}

// Of four neighbouring threads: word c of thread l becomes word l of thread c.
__device__ __forceinline__ void transpose_four(std::uint32_t (&word)[4]) {
  const bool is_upper = threadIdx.x % 4 / 2 == 1, is_odd = threadIdx.x % 2 == 1;
  const std::uint32_t far0 = __shfl_xor_sync(0xffffffffu, is_upper ? word[0] : word[2], 2);
  const std::uint32_t far1 = __shfl_xor_sync(0xffffffffu, is_upper ? word[1] : word[3], 2);
  (is_upper ? word[0] : word[2]) = far0;
  (is_upper ? word[1] : word[3]) = far1;
  const std::uint32_t near0 = __shfl_xor_sync(0xffffffffu, is_odd ? word[0] : word[1], 1);
  const std::uint32_t near1 = __shfl_xor_sync(0xffffffffu, is_odd ? word[2] : word[3], 1);
  (is_odd ? word[0] : word[1]) = near0;
  (is_odd ? word[2] : word[3]) = near1;
}

// Where a thread's two rows of a plane begin: element (row, key 0 of the sequence). Keys past the last are read as an
// earlier one; they are hidden later.
struct PlaneRows {
  std::int64_t at[2];
  std::int64_t key_stride;
  int last_key;  // of the sequence

  __device__ __forceinline__ PlaneRows(const ScorePlane& plane, const ForwardParams& p, const ForwardWork& work,
                                       int row)
      : key_stride(plane.key_stride), last_key(work.limits.key_count - 1) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const std::int64_t query = work.limits.query_begin + min(row + 8 * r, work.limits.query_length - 1);
      at[r] = work.batch * plane.batch_stride + work.head * plane.head_stride + query * plane.query_stride +
              work.limits.key_begin * plane.key_stride;
    }
  }
  __device__ __forceinline__ std::int64_t element(int r, int key) const {
    return at[r] + min(key, last_key) * key_stride;
  }
};

// A thread's two rows of a plane whose neighbouring keys are neighbours in memory, sixteen bytes at a time.
template <typename Element>
struct PlaneVectors {
  const Element* rows[2];
  int last;  // the last key from which sixteen bytes can be read

  __device__ __forceinline__ void begin(const ScorePlane& plane, const ForwardParams& p, const ForwardWork& work,
                                        int row) {
    const PlaneRows places(plane, p, work, row);
    const auto* data = static_cast<const Element*>(plane.data);
#pragma unroll
    for (int r = 0; r < 2; ++r) rows[r] = data + places.at[r];
    last = p.key_length - work.limits.key_begin - 16 / static_cast<int>(sizeof(Element));
  }
  // Row r from `key` on; keys past the last are read as an earlier one, and hidden later.
  __device__ __forceinline__ const uint4* at(int r, int key) const {
    return reinterpret_cast<const uint4*>(rows[r] + min(key, last));
  }
};

// 16 bytes from global to shared memory, by the time that await_copies() ends in this thread.
__device__ __forceinline__ void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
__device__ __forceinline__ void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// A bias of the elements' own type, copied a block ahead into shared memory of the warp's own. `column` is the thread's
// first: block * kKeys + 2 * (lane % 4).
template <typename T, int kKeys>
struct BiasBlock {
  static_assert(kKeys % 64 == 0);
  static constexpr int kRowBytes = 2 * kKeys, kWarpBytes = 16 * kRowBytes;
  PlaneVectors<T> plane;
  std::uint32_t memory;  // (16 rows, kKeys) of the warp; 16-byte piece c of row r is at place c ^ r % 8

  __device__ __forceinline__ void begin(const ForwardParams& p, const ForwardWork& work, int row,
                                        std::uint32_t first_memory) {
    plane.begin(p.options.bias, p, work, row);
    memory = first_memory + (threadIdx.x / 32 - 4) * kWarpBytes;
  }

  // kLast: of the last block, which may reach past the last key.
  template <bool kLast>
  __device__ __forceinline__ void read(int column) const {
    const int row = threadIdx.x % 32 / 4, piece = threadIdx.x % 4, first = column + 6 * piece;
    const std::uint32_t to = memory + row * kRowBytes;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int g = 0; g < kKeys / 32; ++g) {
        const T* from = plane.rows[r] + (kLast ? min(first + 32 * g, plane.last) : first + 32 * g);
        copy_async(to + 8 * r * kRowBytes + (((piece + 4 * g) ^ row) << 4), from);
      }
    }
  }

  // scores = scores + bias / scale, or -infinity from a bias of -1e30 down. A score that is NaN stays so: its row is
  // computed again, later.
  __device__ __forceinline__ void apply(float inverse_scale, float (&scores)[kKeys / 2]) const {
    const int lane = threadIdx.x % 32;
    const std::uint32_t from = memory + lane % 16 * kRowBytes;
    await_copies();
    __syncwarp();
#pragma unroll
    for (int g = 0; g < kKeys / 64; ++g) {
      std::uint32_t word[4][4];  // of 16 columns, as packed probabilities
#pragma unroll
      for (int k = 0; k < 4; ++k) ldmatrix(word[k], from + (((8 * g + 2 * k + lane / 16) ^ lane % 8) << 4));
      hide_lowest(word);
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const float2 bias = unpack<T>(word[i / 4][i % 4]);
        float* pair = scores + 32 * g + 2 * i;
        pair[0] = fmaf(bias.x, inverse_scale, pair[0]);
        pair[1] = fmaf(bias.y, inverse_scale, pair[1]);
      }
    }
    __syncwarp();
  }

 private:
  // Makes a bias of -1e30 and below -infinity; float16 has none but -infinity itself. As unsigned numbers the negative
  // ones are the largest, growing with the magnitude, and NaN above -infinity.
  static __device__ __forceinline__ void hide_lowest(std::uint32_t (&word)[4][4]) {
    if constexpr (std::is_same_v<T, __nv_bfloat16>) {
      constexpr std::uint32_t kLowest = 0xF14A, kInfinity = 0xFF80;  // the first below -1e30, and -infinity
      std::uint32_t largest = 0;
#pragma unroll
      for (int i = 0; i < 16; i += 2) {
        largest = __vimax3_u16x2(largest, word[i / 4][i % 4], word[i / 4][i % 4 + 1]);
      }
      if (!warps_condition(largest >= kLowest << 16 || (largest & 0xFFFF) >= kLowest)) return;
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        std::uint32_t& pair = word[i / 4][i % 4];
        const std::uint32_t low = pair & 0xFFFF, high = pair >> 16;
        const std::uint32_t new_low = low >= kLowest && low < kInfinity ? kInfinity : low;
        const std::uint32_t new_high = high >= kLowest && high < kInfinity ? kInfinity : high;
        pair = new_high << 16 | new_low;
      }
    }
  }
};

// A boolean mask, one byte an element.
template <int kKeys>
struct MaskBlock {
  static_assert(kKeys % 64 == 0);
  PlaneVectors<std::uint8_t> plane;
  // Of 64 columns: [row][...][pair of 8-column groups], two columns of the even group and two of the odd one.
  std::uint32_t word[2][kKeys / 64][4];

  __device__ __forceinline__ void begin(const ForwardParams& p, const ForwardWork& work, int row) {
    plane.begin(p.options.mask, p, work, row);
  }

  __device__ __forceinline__ void read(int column) {
    const int first = column + 14 * (threadIdx.x % 4);
#pragma unroll
    for (int g = 0; g < kKeys / 64; ++g) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const uint4 v = __ldg(plane.at(r, first + 64 * g));
        word[r][g][0] = v.x, word[r][g][1] = v.y, word[r][g][2] = v.z, word[r][g][3] = v.w;
      }
    }
  }

  __device__ __forceinline__ void prepare() {
#pragma unroll
    for (int g = 0; g < kKeys / 64; ++g) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        // 16 columns are four pairs of each of two groups: thread c's pairs are joined, and go to it.
        std::uint32_t(&w)[4] = word[r][g];
        const std::uint32_t even0 = w[0], even1 = w[1], odd0 = w[2], odd1 = w[3];
        w[0] = __byte_perm(even0, odd0, 0x5410), w[1] = __byte_perm(even0, odd0, 0x7632);
        w[2] = __byte_perm(even1, odd1, 0x5410), w[3] = __byte_perm(even1, odd1, 0x7632);
        transpose_four(w);
      }
    }
  }

  // Scores that the mask hides become -infinity.
  __device__ __forceinline__ void apply(bool true_keeps, float (&scores)[kKeys / 2]) const {
#pragma unroll
    for (int g = 0; g < kKeys / 64; ++g) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
          for (int b = 0; b < 4; ++b) {
            const bool is_set = (word[r][g][j] & (0xFFu << (8 * b))) != 0;
            if (is_set != true_keeps) scores[32 * g + 8 * j + 4 * (b / 2) + 2 * r + b % 2] = -INFINITY;
          }
        }
      }
    }
  }
};

}  // namespace headway::inline v0::internal::cuda

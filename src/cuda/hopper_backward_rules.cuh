// What the Hopper backward does to scores beside the softmax: masks, biases, ALiBi, softcap, dropout.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "cuda/hopper_backward_work.cuh"
#include "cuda/hopper_ptx.cuh"

namespace headway::inline v0::internal::cuda {

// What a kernel can do: `bias` and `mask` alone read pairs of neighbouring keys, or have the bias copied where dims are
// up to 128; `all` anything, element by element.
enum class BackwardRules { plain, limited, dropout, bias, mask, all };

constexpr float kBackwardLog2E = 1.4426950408889634f;
constexpr float kBackwardHides = -1e30f;  // a bias from here down hides its key

// A query and a key of one head, counted inside their sequence.
struct ScorePlace {
  int head, query, key;
};

// ---- element by element ----
// Where an element of a mask or bias lies.
template <class Work>
__device__ __forceinline__ std::int64_t plane_offset(const std::int64_t (&stride)[4], const Work& work, ScorePlace at) {
  return work.batch * stride[0] + at.head * stride[1] + (work.query_begin + at.query) * stride[2] +
         (work.key_begin + at.key) * stride[3];
}

template <class Work>
__device__ __forceinline__ bool mask_keeps(const BackwardMask& mask, const Work& work, ScorePlace at) {
  if (mask.data == nullptr) return true;
  return (mask.data[plane_offset(mask.stride, work, at)] != 0) == mask.true_keeps;
}

template <class Work>
__device__ __forceinline__ float bias_of(const BackwardBias& bias, const Work& work, ScorePlace at) {
  if (bias.data == nullptr) return 0.f;
  const std::int64_t offset = plane_offset(bias.stride, work, at);
  if (bias.dtype == DType::float32) return static_cast<const float*>(bias.data)[offset];
  if (bias.dtype == DType::float16) return __half2float(static_cast<const __half*>(bias.data)[offset]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(bias.data)[offset]);
}

// What bias and ALiBi add to a score in base 2; -inf where mask or bias hide the key.
template <class Work>
__device__ __forceinline__ float added_score(const BackwardParameters& p, const Work& work, ScorePlace at) {
  const float bias = bias_of(p.bias, work, at);
  if (bias <= kBackwardHides || !mask_keeps(p.mask, work, at)) return -INFINITY;
  if (p.slopes == nullptr) return bias * kBackwardLog2E;
  const float slope = p.slopes[static_cast<std::int64_t>(work.sequence) * p.heads + at.head];
  return (bias - slope * static_cast<float>(abs(at.query + work.query_offset - at.key))) * kBackwardLog2E;
}

// A score in base 2, and the slope of the softcap there.
struct CappedScore {
  float score, slope;
};

// softcap * tanh(scale * product / softcap) + added, from a product of query and key.
__device__ __forceinline__ CappedScore cap_score(const BackwardParameters& p, float product, float added) {
  if (p.softcap == 0.f) return {fmaf(product, p.scale_log2, added), 1.f};
  // tanh(x) = 1 - 2 / (1 + exp(2 x)), to 1e-6 of 1
  const float growth = exp2_approximate(2.f * p.scale_log2 / p.softcap * product);
  const float tanh = 1.f - __fdividef(2.f, 1.f + growth);
  return {fmaf(p.softcap * kBackwardLog2E, tanh, added), (1.f - tanh) * (1.f + tanh)};
}

// The factor that dropout gives to one probability, by the rule of core/random.h.
__device__ inline float dropout_factor(const BackwardDropout& dropout, int sequence, ScorePlace at) {
  if (dropout.threshold == 0) return 1.f;
  std::uint32_t words[4] = {static_cast<std::uint32_t>(at.query / 16 * 8 + at.query % 8),
                            static_cast<std::uint32_t>(at.key / 16 * 4 + at.key % 8 / 2),
                            static_cast<std::uint32_t>(at.head), static_cast<std::uint32_t>(sequence)};
  philox(words, dropout.seed);
  const int which = 2 * (at.query % 16 / 8) + at.key % 16 / 8;
  const std::uint32_t word = which == 0 ? words[0] : which == 1 ? words[1] : which == 2 ? words[2] : words[3];
  const std::uint32_t draw = at.key % 2 == 0 ? word & 0xFFFF : word >> 16;
  return draw < dropout.threshold ? 0.f : dropout.scale;
}

// ---- a warp's 16 keys and kQueries queries at once ----
// An 8 x 8 matrix of 16-bit elements, transposed: lane l holds the pair (row l / 4, columns 2 (l % 4) + {0, 1}).
__device__ __forceinline__ std::uint32_t transpose_matrix(std::uint32_t pair) {
  std::uint32_t result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
  return result;
}

// The thread's lane, read where it is needed rather than kept in a register.
__device__ __forceinline__ int lane_here() {
  int lane;
  asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
  return lane;
}

// Two 16-bit elements as float32.
template <typename T>
__device__ __forceinline__ float2 unpack_pair(std::uint32_t pair) {
  if constexpr (std::is_same_v<T, __half>) {
    return {__half2float(__ushort_as_half(static_cast<unsigned short>(pair))),
            __half2float(__ushort_as_half(static_cast<unsigned short>(pair >> 16)))};
  } else {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xFFFF0000u)};
  }
}

// Loads that are issued where they stand: others the compiler moves to where the value is used, and waits for it there.
__device__ __forceinline__ std::uint32_t load_here(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ unsigned short load_here(const unsigned short* from) {
  unsigned short value;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(value) : "l"(from) : "memory");
  return value;
}

// Where a lane reads pairs of neighbouring keys from the rows of a plane: row lane / 4 of each 8, keys 2 (lane % 4) +
// {0, 1}. Keys, and the rows' length, are even.
template <typename Element>
struct PairReader {
  const Element* at;
  std::int64_t step;  // from a row to the eighth after it
  int rows_left;      // of the sequence, from the lane's first on
  int keys_left;      // of the tensor, from the lane's first on

  __device__ __forceinline__ PairReader(const void* data, const std::int64_t (&stride)[4], const BackwardParameters& p,
                                        const BackwardWork& work, int head, int first_query, int first_key) {
    const int lane = threadIdx.x % 32, query = first_query + lane / 4, key = first_key + 2 * (lane % 4);
    at = static_cast<const Element*>(data) + plane_offset(stride, work, {head, query, key});
    step = 8 * stride[2];
    rows_left = work.query_length - query;
    keys_left = p.key_length - work.key_begin - key;
  }
  // A pair of keys, 8 `keys_on` further, of the row 8 `rows_on` further; zeros outside.
  template <typename Pair>
  __device__ __forceinline__ Pair read(int rows_on, int keys_on) const {
    if (8 * rows_on >= rows_left || 8 * keys_on >= keys_left) return 0;
    return load_here(reinterpret_cast<const Pair*>(at + rows_on * step + 8 * keys_on));
  }
};

// Whether one of a warp's pairs of biases, the largest as unsigned numbers, may hide its key: there the negative ones
// are the largest, growing with the magnitude.
template <typename T>
__device__ __forceinline__ bool may_hide(std::uint32_t largest) {
  constexpr std::uint32_t kLowest = std::is_same_v<T, __half> ? 0xFC00 : 0xF149;  // of a bias not below kBackwardHides
  return warps_condition(largest >= kLowest << 16 || (largest & 0xFFFF) >= kLowest);
}

// A bias of the elements' own type that the lanes read themselves.
template <typename T, int kQueries>
struct BiasTile {
  std::uint32_t word[kQueries / 8][2];  // as read; [8 queries][8 keys]

  __device__ __forceinline__ void read(const BackwardParameters& p, const BackwardWork& work, int head, int first_query,
                                       int first_key) {
    const PairReader<T> reader(p.bias.data, p.bias.stride, p, work, head, first_query, first_key);
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
#pragma unroll
      for (int y = 0; y < 2; ++y) word[j][y] = reader.template read<std::uint32_t>(j, y);
    }
  }
  // The biases of a thread's key, and of two neighbouring queries.
  __device__ __forceinline__ float2 pair(int j, int y) const { return unpack_pair<T>(transpose_matrix(word[j][y])); }
  __device__ __forceinline__ bool hides() const {
    std::uint32_t largest = 0;
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) largest = __vimax3_u16x2(largest, word[j][0], word[j][1]);
    return may_hide<T>(largest);
  }
};

// The same where bulk copies have brought it to shared memory: (kQueries, 64 keys), swizzled by 128 bytes. Half the
// queries at a time, for want of registers.
template <typename T, int kQueries>
struct CopiedBiasTile {
  static constexpr int kSteps = kQueries / 32;  // of 16 queries in a half
  std::uint32_t tile;
  std::uint32_t word[kSteps][4];  // [16 queries][2 * (second 8 queries) + (second 8 keys)]
  std::uint32_t largest;          // of the words so far

  // `chunk`: of 8 keys, the first of the warp's two.
  __device__ __forceinline__ void read_half(int half, int chunk) {
    const int lane = lane_here(), query = lane / 16 * 8 + lane % 8;
    const std::uint32_t from = tile + query * 128 + ((chunk + lane / 8 % 2 ^ query % 8) << 4);
#pragma unroll
    for (int k = 0; k < kSteps; ++k) {
      ldmatrix_transposed(word[k], from + (half * kSteps + k) * 2048);
      largest = __vimax3_u16x2(k == 0 && half == 0 ? 0 : largest, word[k][0], word[k][1]);
      largest = __vimax3_u16x2(largest, word[k][2], word[k][3]);
    }
  }
  // The biases of a thread's key, and of two neighbouring queries of the half.
  __device__ __forceinline__ float2 pair(int j, int y) const {
    return unpack_pair<T>(word[j / 2 % kSteps][j % 2 * 2 + y]);
  }
  __device__ __forceinline__ bool hides() const { return may_hide<T>(largest); }
};

// A boolean mask, one byte an element.
template <int kQueries>
struct MaskTile {
  std::uint32_t word[kQueries / 8];  // bytes: key, key + 8, next key, next key + 8

  __device__ __forceinline__ void read(const BackwardParameters& p, const BackwardWork& work, int head, int first_query,
                                       int first_key) {
    const PairReader<unsigned char> reader(p.mask.data, p.mask.stride, p, work, head, first_query, first_key);
#pragma unroll
    for (int j = 0; j < kQueries / 8; ++j) {
      const std::uint32_t near = reader.template read<unsigned short>(j, 0);
      const std::uint32_t far = reader.template read<unsigned short>(j, 1);
      word[j] = __byte_perm(near, far, 0x5140);
    }
  }
  // Bytes: query, query at key + 8, next query, next query at key + 8.
  __device__ __forceinline__ std::uint32_t bytes(int j) const { return transpose_matrix(word[j]); }
};

}  // namespace headway::inline v0::internal::cuda

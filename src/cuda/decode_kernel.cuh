// One warp's way through keys and values, for up to 16 rows of queries that share them. Both come straight from global
// memory into the registers that the products read, the next step's while this one's are used.
//
//   S   = Q K^T               (rows, keys)
//   P   = exp(S - m)          (m: the largest score so far, or one that is not far below it)
//   O^T = O^T * exp(old m - m) + V^T P^T
#pragma once

#include <cstdint>

#include "cuda/attention_score.cuh"
#include "cuda/mma_sync.cuh"

namespace headway::inline v0::internal::cuda {

// kTiles: tiles of 8 rows. kGeneral: everything that ScoreRule knows; else causal, windows, lengths and sinks.
template <typename Element, int kColumns, int kRowTiles, bool kAnyRule>
struct DecodeShape {
  using T = Element;
  static constexpr int kDim = kColumns;  // 64, 128 or 256; what is missing is zero
  static constexpr int kTiles = kRowTiles;
  static constexpr bool kGeneral = kAnyRule;
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kKeys = kDim == 64 ? 32 : 16;  // of a warp's step
  static constexpr int kWarps = 4;
  static constexpr int kStep = kWarps * kKeys;                  // keys between two steps of a warp
  static constexpr bool kAhead = kDim <= 128;                   // registers for keys and values at once
  static constexpr int kBlocks = kDim * kTiles <= 128 ? 3 : 2;  // on a multiprocessor
  static constexpr int kQueryStride = kDim + 32;                // in shared memory, against bank conflicts
};

// 16 bytes of shared memory, read anew each time: the registers are for what comes from far away.
__device__ __forceinline__ uint4 load_again(std::uint32_t address) {
  uint4 v;
  asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address));
  return v;
}

// A step's keys: key 8 t + lane / 4, columns 32 i + 8 (lane % 4).
template <class S>
struct KeyWords {
  uint4 at[S::kKeys / 8][S::kDim / 32];

  __device__ __forceinline__ void load(const StreamRows<typename S::T>& rows, int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int t = 0; t < S::kKeys / 8; ++t) {
#pragma unroll
      for (int i = 0; i < S::kDim / 32; ++i) at[t][i] = rows.load(key + 8 * t + lane / 4, 32 * i + 8 * (lane % 4));
    }
  }

  // S = Q K^T: scores[t] are rows lane / 4 and + 8, keys 8 t + 2 (lane % 4) + {0, 1}. query: (kRows, kQueryStride)
  __device__ __forceinline__ void multiply(const typename S::T* query, float (&scores)[S::kKeys / 8][4]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t row = shared_address(query + lane / 4 * S::kQueryStride + 8 * (lane % 4));
    constexpr int kBytes = sizeof(typename S::T);
#pragma unroll
    for (int t = 0; t < S::kKeys / 8; ++t) {
#pragma unroll
      for (int e = 0; e < 4; ++e) scores[t][e] = 0.f;
    }
#pragma unroll
    for (int i = 0; i < S::kDim / 32; ++i) {
      const uint4 upper = load_again(row + 32 * i * kBytes);
      uint4 lower = {0, 0, 0, 0};
      if constexpr (S::kTiles == 2) lower = load_again(row + (8 * S::kQueryStride + 32 * i) * kBytes);
#pragma unroll
      for (int t = 0; t < S::kKeys / 8; ++t) multiply_add_columns<typename S::T>(scores[t], upper, lower, at[t][i]);
    }
  }
};

// The outputs of a warp, transposed: at[p][u][r] are the columns 64 p + 8 (lane / 4) + 2 u (elements 0, 1) and the one
// after it (2, 3), of rows 8 r + 2 (lane % 4) + {0, 1}.
template <class S>
struct DecodeOutputs {
  float at[S::kDim / 64][4][S::kTiles][4];

  // Multiplies each row by its factor, which the lanes of row lane / 4 have.
  __device__ __forceinline__ void multiply(const float (&factors)[S::kTiles]) {
    const int source = static_cast<int>(threadIdx.x) % 4 * 8;
#pragma unroll
    for (int r = 0; r < S::kTiles; ++r) {
      const float even = __shfl_sync(0xffffffffu, factors[r], source);
      const float odd = __shfl_sync(0xffffffffu, factors[r], source + 4);
#pragma unroll
      for (int p = 0; p < S::kDim / 64; ++p) {
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          at[p][u][r][0] *= even;
          at[p][u][r][1] *= odd;
          at[p][u][r][2] *= even;
          at[p][u][r][3] *= odd;
        }
      }
    }
  }

  // target (kRows, kDim)
  __device__ __forceinline__ void store(float* target) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int p = 0; p < S::kDim / 64; ++p) {
#pragma unroll
      for (int u = 0; u < 4; ++u) {
#pragma unroll
        for (int r = 0; r < S::kTiles; ++r) {
          float* even = target + (8 * r + lane % 4 * 2) * S::kDim + 64 * p + lane / 4 * 8 + 2 * u;
          *reinterpret_cast<float2*>(even) = {at[p][u][r][0], at[p][u][r][2]};
          *reinterpret_cast<float2*>(even + S::kDim) = {at[p][u][r][1], at[p][u][r][3]};
        }
      }
    }
  }
};

// A step's values: keys 16 s + 2 (lane % 4) + {0, 1, 8, 9}, columns 64 p + 8 (lane / 4).
template <class S>
struct ValueWords {
  uint4 at[S::kKeys / 16][4][S::kDim / 64];

  __device__ __forceinline__ void load(const StreamRows<typename S::T>& rows, int key) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int s = 0; s < S::kKeys / 16; ++s) {
#pragma unroll
      for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int p = 0; p < S::kDim / 64; ++p) {
          at[s][n][p] = rows.load(key + 16 * s + 2 * (lane % 4) + n / 2 * 8 + n % 2, 64 * p + 8 * (lane / 4));
        }
      }
    }
  }

  // O^T += V^T P^T, with P as KeyWords::multiply leaves scores.
  __device__ __forceinline__ void add_product(const float (&p)[S::kKeys / 8][4], DecodeOutputs<S>& outputs) const {
    using T = typename S::T;
#pragma unroll
    for (int s = 0; s < S::kKeys / 16; ++s) {
      std::uint32_t weights[S::kTiles][2];
#pragma unroll
      for (int r = 0; r < S::kTiles; ++r) {
        weights[r][0] = pack<T>(p[2 * s][2 * r], p[2 * s][2 * r + 1]);
        weights[r][1] = pack<T>(p[2 * s + 1][2 * r], p[2 * s + 1][2 * r + 1]);
      }
#pragma unroll
      for (int c = 0; c < S::kDim / 64; ++c) {
        const auto add = [&](int u, std::uint32_t v0, std::uint32_t v1, std::uint32_t v8, std::uint32_t v9) {
          const std::uint32_t a0 = low_halves(v0, v1), a1 = high_halves(v0, v1);
          const std::uint32_t a2 = low_halves(v8, v9), a3 = high_halves(v8, v9);
#pragma unroll
          for (int r = 0; r < S::kTiles; ++r) {
            multiply_add<T>(outputs.at[c][u][r], a0, a1, a2, a3, weights[r][0], weights[r][1]);
          }
        };
        add(0, at[s][0][c].x, at[s][1][c].x, at[s][2][c].x, at[s][3][c].x);
        add(1, at[s][0][c].y, at[s][1][c].y, at[s][2][c].y, at[s][3][c].y);
        add(2, at[s][0][c].z, at[s][1][c].z, at[s][2][c].z, at[s][3][c].z);
        add(3, at[s][0][c].w, at[s][1][c].w, at[s][2][c].w, at[s][3][c].w);
      }
    }
  }
};

// What a lane knows of its rows lane / 4 + 8 r.
template <class S>
struct DecodeRows {
  float unit;                // scores times this are exponents of 2
  float maximum[S::kTiles];  // the reference of the exponents
  float sum[S::kTiles];      // of the exponentials of this lane's keys
  int low[S::kTiles];        // the first key that is seen
  int end[S::kTiles];        // and the one past the last
  std::int64_t query[S::kTiles], head[S::kTiles];

  // Scores that are not seen become -infinity, whatever they were. `key`: the first of the step.
  __device__ __forceinline__ void hide(const AttentionCall& call, std::int64_t sequence, int key,
                                       float (&scores)[S::kKeys / 8][4]) const {
    const int first = key + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int r = 0; r < S::kTiles; ++r) {
      if constexpr (S::kGeneral) {
        const ScoreRule<float> rule(call, sequence, head[r]);
#pragma unroll
        for (int i = 0; i < S::kKeys / 4; ++i) {
          float& score = scores[i / 2][2 * r + i % 2];
          const int k = first + i / 2 * 8 + i % 2;
          const bool is_seen = k >= low[r] && k < end[r];
          score = is_seen ? rule.masked(rule.capped(times(score, rule.scale)), query[r], k, true) : -INFINITY;
        }
      } else {
#pragma unroll
        for (int i = 0; i < S::kKeys / 4; ++i) {
          const int k = first + i / 2 * 8 + i % 2;
          if (k < low[r] || k >= end[r]) scores[i / 2][2 * r + i % 2] = -INFINITY;
        }
      }
    }
  }

  // P = exp(S - maximum), and its sums. The reference is raised where a score of the warp is above it by more than 8 in
  // the exponent, because float32 and the 16-bit formats hold 2^8 as well as 1.
  __device__ __forceinline__ void exponentiate(float (&scores)[S::kKeys / 8][4], DecodeOutputs<S>& outputs) {
    float found[S::kTiles];
    bool is_far = false;
#pragma unroll
    for (int r = 0; r < S::kTiles; ++r) {
      found[r] = -INFINITY;
#pragma unroll
      for (int i = 0; i < S::kKeys / 4; ++i) found[r] = fmaxf(found[r], scores[i / 2][2 * r + i % 2]);
      is_far = is_far || (found[r] - maximum[r]) * unit > 8.f;
    }
    if (__any_sync(0xffffffffu, is_far)) raise_maximum(found, outputs);
#pragma unroll
    for (int r = 0; r < S::kTiles; ++r) {
      const float shift = maximum[r] == -INFINITY ? 0.f : maximum[r];
#pragma unroll
      for (int i = 0; i < S::kKeys / 4; ++i) {
        float& score = scores[i / 2][2 * r + i % 2];
        score = exp2_approximate((score - shift) * unit);
        sum[r] += score;
      }
    }
  }

  // Makes the rows' true maximum the reference, and rescales sums and outputs to it.
  __device__ __forceinline__ void raise_maximum(float (&found)[S::kTiles], DecodeOutputs<S>& outputs) {
    float factors[S::kTiles];
#pragma unroll
    for (int r = 0; r < S::kTiles; ++r) {
      found[r] = fmaxf(found[r], maximum[r]);
      found[r] = fmaxf(found[r], __shfl_xor_sync(0xffffffffu, found[r], 1));
      found[r] = fmaxf(found[r], __shfl_xor_sync(0xffffffffu, found[r], 2));
      factors[r] = exp2_approximate((maximum[r] - (found[r] == -INFINITY ? 0.f : found[r])) * unit);
      maximum[r] = found[r];
      sum[r] *= factors[r];
    }
    outputs.multiply(factors);
  }
};

}  // namespace headway::inline v0::internal::cuda

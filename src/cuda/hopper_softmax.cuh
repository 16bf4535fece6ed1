// The online softmax of a warpgroup's 64 rows. A thread has two of them: values i with i / 2 % 2 == r belong to row r.
#pragma once

#include <cstdint>

#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_wgmma.cuh"

namespace headway::inline v0::internal::cuda {

// What is known of a thread's two rows so far.
struct OnlineRows {
  float maximum[2];  // the reference that exponents are taken against
  float sum[2];      // of the exponentials of this thread's columns alone
};

// The largest of this thread's scores, and of `found` before.
template <int kCount>
__device__ __forceinline__ void find_largest(const float (&scores)[kCount], float (&found)[2]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) found[i / 2 % 2] = fmaxf(found[i / 2 % 2], scores[i]);
}

// Makes the rows' true maximum the reference, and rescales sums and outputs to it.
template <int kCount, int kOutputs>
__device__ __forceinline__ void raise_maximum(const float (&scores)[kCount], float scale, OnlineRows& rows,
                                              float (&outputs)[kOutputs]) {
  float found[2] = {rows.maximum[0], rows.maximum[1]};
  find_largest(scores, found);
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    found[r] = fmaxf(found[r], __shfl_xor_sync(0xffffffffu, found[r], 1));
    found[r] = fmaxf(found[r], __shfl_xor_sync(0xffffffffu, found[r], 2));
    const float safe = found[r] == -INFINITY ? 0.f : found[r];
    const float factor = exp2_approximate((rows.maximum[r] - safe) * scale);
    rows.maximum[r] = found[r];
    rows.sum[r] *= factor;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) {
      if (i / 2 % 2 == r) outputs[i] *= factor;
    }
  }
}

// True in a whole warp where one of its scores is above its reference by more than 8 in the exponent; else the
// reference may stay, because float32 and the 16-bit formats hold 2^8 as well as 1. No value of other threads is needed
// to decide.
template <int kCount>
__device__ __forceinline__ bool is_far_above(const float (&scores)[kCount], float scale, const OnlineRows& rows) {
  float found[2] = {-INFINITY, -INFINITY};
  find_largest(scores, found);
  const bool is_far = (found[0] - rows.maximum[0]) * scale > 8.f || (found[1] - rows.maximum[1]) * scale > 8.f;
  return __any_sync(0xffffffffu, is_far);
}

// P = exp2((S - maximum) * scale), and its row sums.
template <int kCount>
__device__ __forceinline__ void exponentiate(float (&scores)[kCount], float scale, OnlineRows& rows) {
  const float shift[2] = {(rows.maximum[0] == -INFINITY ? 0.f : rows.maximum[0]) * scale,
                          (rows.maximum[1] == -INFINITY ? 0.f : rows.maximum[1]) * scale};
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    scores[i] = exp2_approximate(fmaf(scores[i], scale, -shift[i / 2 % 2]));
    rows.sum[i / 2 % 2] += scores[i];
  }
}

// P in T, as the A operand of the next product: one k-step of 16 columns is 8 values of a thread.
template <typename T, int kSteps>
__device__ __forceinline__ void pack_probabilities(const float (&p)[8 * kSteps], std::uint32_t (&packed)[kSteps][4]) {
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j) packed[k][j] = pack<T>(p[8 * k + 2 * j], p[8 * k + 2 * j + 1]);
  }
}

// What a row's output is multiplied by, and its log-sum-exp: after the last block, with the threads' sums joined.
struct RowEnd {
  float factor, logsumexp;
};
__device__ __forceinline__ RowEnd finish_row(const OnlineRows& rows, int r, float scale, bool has_sink, float sink) {
  constexpr float kLog2e = 1.4426950408889634f, kLn2 = 0.6931471805599453f;
  float sum = rows.sum[r];
  sum += __shfl_xor_sync(0xffffffffu, sum, 1);
  sum += __shfl_xor_sync(0xffffffffu, sum, 2);
  float top = rows.maximum[r] * scale, factor = 1.f;
  if (has_sink && sink != -INFINITY) {  // one more score, without a value
    const float raised = fmaxf(top, sink * kLog2e);
    factor = exp2_approximate(top - raised);
    sum = sum * factor + exp2_approximate(sink * kLog2e - raised);
    top = raised;
  }
  if (sum == 0.f) return {0.f, -INFINITY};
  return {factor / sum, top * kLn2 + __logf(sum)};
}

}  // namespace headway::inline v0::internal::cuda

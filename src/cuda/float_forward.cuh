// What the float32 forward's kernels share: one head's rows, the softmax, rows that NaN has spoilt.
#pragma once

#include "cuda/float_score.cuh"

namespace headway::inline v0::internal::cuda {

struct FloatForward {
  AttentionCall call;
  HeadRows output;             // (batch, heads, query_length, value_dim)
  float* logsumexp = nullptr;  // (batch, heads, query_length)
  TileTable tiles;             // of the queries
};

// What one head of one sequence reads and writes.
struct ForwardHead : FloatHead {
  FloatRows output;  // (query_length, value_dim)
  float* logsumexp;  // (query_length)
  float sink;        // -infinity: none

  __device__ ForwardHead(const FloatForward& a, std::int64_t index, std::int64_t head)
      : FloatHead(a.call, index, head) {
    const AttentionCall& call = a.call;
    const Sequence s = call.sequence_at(index);
    output = float_rows(a.output, s.batch, head, s.query_begin, s.query_length, call.value_dim);
    logsumexp = a.logsumexp + call.first_row(s, head);
    sink = call.sinks ? static_cast<float>(call.sinks[head]) : kMasked<float>;
  }
};

// The softmax of this thread's rows r and r + 8 of each tile. P = 2^(score * log2e - shift).
template <int kTiles>
struct FloatSoftmax {
  float maximum[kTiles][2];  // the largest score; -infinity before the first
  float shift[kTiles][2];    // maximum * log2e, rounded; 0 before the first score
  float sum[kTiles][2];      // of P, over this thread's columns until finish()

  __device__ FloatSoftmax() {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        maximum[m][h] = kMasked<float>;
        shift[m][h] = sum[m][h] = 0.f;
      }
    }
  }

  // A new largest score for one row; returns what was summed before has to be multiplied by.
  __device__ float raise(int m, int h, float largest) {
    if (!(largest > maximum[m][h])) return 1.f;
    const float next = largest * kLog2E;
    const float factor = maximum[m][h] == kMasked<float> ? 0.f : power_of_two(shift[m][h] - next);
    maximum[m][h] = largest;
    shift[m][h] = next;
    sum[m][h] *= factor;
    return factor;
  }

  // Scores of all tiles become P. factors: what was summed before has to be multiplied by
  __device__ void add(float (&scores)[kTiles][kSteps][4], float (&factors)[kTiles][2]) {
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      add_tile<kSteps>(
          m, [&](int n, int i) -> float& { return scores[m][n][i]; }, {1.f, 1.f}, factors[m]);
    }
  }

  // The same for one tile with 8 * kCount columns: element i of 8 columns n is at(n, i), in units of its row. NaN is
  // never the maximum, and shows through its own exponential.
  template <int kCount, typename At>
  __device__ void add_tile(int m, const At& at, const float (&units)[2], float (&factors)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float largest = kMasked<float>;
#pragma unroll
      for (int n = 0; n < kCount; ++n) largest = fmaxf(largest, fmaxf(at(n, 2 * h), at(n, 2 * h + 1)));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, 2));
      factors[h] = raise(m, h, largest * units[h]);
      const float slope = units[h] * kLog2E;
#pragma unroll
      for (int n = 0; n < kCount; ++n) {
#pragma unroll
        for (int i = 2 * h; i < 2 * h + 2; ++i) {
          at(n, i) = power_of_two(fmaf(at(n, i), slope, -shift[m][h]));
          sum[m][h] += at(n, i);
        }
      }
    }
  }

  // Ends a row, with one more score that has no value behind it. Returns what its output has to be multiplied by.
  __device__ float finish(int m, int h, float sink) {
    float total = sum[m][h];
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 1);
    total += __shfl_xor_sync(0xFFFFFFFFu, total, 2);
    sum[m][h] = total;
    const float factor = raise(m, h, sink);
    if (sink != kMasked<float>) sum[m][h] += power_of_two(fmaf(sink, kLog2E, -shift[m][h]));
    return sum[m][h] == 0.f ? 0.f : factor / sum[m][h];
  }

  // The logarithm of the sum of exp(score), with what rounding took from the shift.
  __device__ float logsumexp(int m, int h) const {
    if (sum[m][h] == 0.f) return kMasked<float>;
    const float lost = fmaf(maximum[m][h], kLog2E, -shift[m][h]);
    return maximum[m][h] + (logf(sum[m][h]) - lost * kLn2);
  }
};

// One row by one warp, key by key, so that what it does not see is never touched.
__device__ __noinline__ inline void repair_output(const ForwardHead& head, int q) {
  WarpRow output;
  float maximum = kMasked<float>, sum = 0;
  // One more score; P of it, with all that was summed before brought to the new maximum.
  const auto add_score = [&](float score) {
    const float largest = score > maximum ? score : maximum;
    const float factor = sum == 0.f ? 0.f : expf(maximum - largest), p = expf(score - largest);
    maximum = largest;
    sum = sum * factor + p;
    output.scale(factor);
    return p;
  };
  const KeyRange seen = head.rule.seen_keys(q);
  for (int k = seen.first; k < seen.end; ++k) {
    const float score = row_product(head.queries.at(q), head.keys.at(k), head.keys.columns) * head.rule.scale;
    if (score == kMasked<float>) continue;
    const float p = add_score(score);
    if (head.rule.keeps_weight(q, k)) output.add(p, head.values.at(k), head.values.columns);
  }
  if (head.sink != kMasked<float>) add_score(head.sink);
  output.write(sum == 0.f ? 0.f : head.rule.keep_scale / sum, head.output.at(q), head.output.columns);
  if (threadIdx.x % 32 == 0) head.logsumexp[q] = sum == 0.f ? kMasked<float> : maximum + logf(sum);
}

}  // namespace headway::inline v0::internal::cuda

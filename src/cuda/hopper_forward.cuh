// The forward kernel: a producer thread loads tiles, consumer warpgroups of 64 queries each compute, in turns, so that
// one's softmax runs under another's products. Within a warpgroup, S of a block runs together with P V of the one
// before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "cuda/element.cuh"
#include "cuda/hopper_dropout.cuh"
#include "cuda/hopper_mask.cuh"
#include "cuda/hopper_ptx.cuh"
#include "cuda/hopper_schedule.cuh"
#include "cuda/hopper_softmax.cuh"
#include "cuda/hopper_wgmma.cuh"

namespace headway::inline v0::internal::cuda {

template <class S>
struct ForwardConsumer {
  using T = typename S::Element;
  const ForwardParams& p;
  const SharedLayout<S>& shared;
  const int group = __shfl_sync(0xffffffffu, threadIdx.x / 128 - 1, 0);  // so that it is known to be the warp's
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
  Ring<S::kStages> keys, values;
  ForwardWork work;
  ScoreInputs<S> inputs;
  float scores[S::kKeys / 2];                     // (64, kKeys): S, then P
  std::uint32_t probabilities[S::kKeys / 16][4];  // (64, kKeys): P in T
  float outputs[S::kDim / 2];                     // (64, kDim): O, not yet divided by the rows' sums
  OnlineRows rows;

  __device__ __forceinline__ ForwardConsumer(const ForwardParams& params, const SharedLayout<S>& layout)
      : p(params), shared(layout) {}

  // This thread's first row, and its first column of a block, inside the sequence.
  __device__ __forceinline__ int row() const { return work.row + group * 64 + warp * 16 + lane / 4; }
  __device__ __forceinline__ int column(int block) const { return block * S::kKeys + 2 * (lane % 4); }
  __device__ __forceinline__ float score_scale() const { return S::kInBase2 ? 1.f : p.scale_log2; }

  // The warpgroups' turns at the tensor cores.
  __device__ __forceinline__ void await_turn() const {
    if constexpr (S::kTurns) named_sync(1 + group, 256);
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (S::kTurns) named_arrive(1 + (group + 1) % S::kGroups, 256);
  }
  __device__ __forceinline__ void sync_group() const { named_sync(5 + group, 128); }

  // The operands' addresses, found before the turn comes.
  __device__ __forceinline__ std::uint32_t query_operand() const { return operand(shared.query(group), 16); }
  __device__ __forceinline__ std::uint32_t key_operand() const { return operand(shared.key(keys.stage()), 16); }
  __device__ __forceinline__ std::uint32_t value_operand() const {
    return operand(shared.value(values.stage()), S::kKeys * 128);
  }

  // S = Q K^T
  __device__ __forceinline__ void issue_scores(std::uint32_t query, std::uint32_t key) {
#pragma unroll
    for (int k = 0; k < S::kDim / 16; ++k) {
      const std::uint64_t a = descriptor(query, (k / 4) * 64 * 128 + (k % 4) * 32);
      const std::uint64_t b = descriptor(key, (k / 4) * S::kKeys * 128 + (k % 4) * 32);
      if (k == 0) {
        wgmma_ss_first<T>(scores, a, b);
      } else {
        wgmma_ss<T>(scores, a, b);
      }
    }
    wgmma_commit();
  }

  // O += P V
  __device__ __forceinline__ void issue_outputs(std::uint32_t value) {
#pragma unroll
    for (int k = 0; k < S::kKeys / 16; ++k) wgmma_rs<T>(outputs, probabilities[k], descriptor(value, k * 2048));
    wgmma_commit();
  }

  __device__ __forceinline__ void await_keys() const { barrier_wait(shared.key_full(keys.stage()), keys.parity()); }
  __device__ __forceinline__ void await_values() const {
    barrier_wait(shared.value_full(values.stage()), values.parity());
  }
  __device__ __forceinline__ void release_keys() {
    if (lane == 0) barrier_arrive(shared.key_empty(keys.stage()));
    keys.advance();
  }
  __device__ __forceinline__ void release_values() {
    if (lane == 0) barrier_arrive(shared.value_empty(values.stage()));
    values.advance();
  }

  // The buffer of the tile's queries is free for the next ones.
  __device__ __forceinline__ void release_queries() const {
    if (!S::kShareOutput && lane == 0) barrier_arrive(shared.query_empty(group));
  }
  // After a block's S: the buffer of its keys is free, and after the last block's that of the queries too.
  __device__ __forceinline__ void release_operands(int block) {
    release_keys();
    if (block == work.first) release_queries();
  }

  __device__ __forceinline__ void pack_and_drop(int block) {
    pack_probabilities<T>(scores, probabilities);
    if constexpr (S::kDropout) {
      // The kernel for all rules looks whether there is dropout.
      if (!S::kScores || p.options.dropout_threshold != 0) {
        drop_probabilities(p.options, work, row(), column(block), probabilities);
      }
    }
  }

  // A block that none of the warpgroup's rows sees: the others' order stays as it is.
  __device__ __forceinline__ void skip_block() {
    await_keys();
    await_turn();
    pass_turn();
    release_keys();
    await_values();
    release_values();
  }

  // The block that comes first: S and P alone.
  __device__ __forceinline__ void first_block(int block) {
    inputs.read(column(block));
    const std::uint32_t query = query_operand(), key = key_operand();
    await_keys();
    await_turn();
    wgmma_fence();
    issue_scores(query, key);
    pass_turn();
    inputs.prepare();
    wgmma_wait<0>();
    release_operands(block);
    inputs.apply(p, work, row(), column(block), block > work.first, scores);
    hide_outside<S>(scores, work.limits, row(), column(block));
    raise_maximum(scores, score_scale(), rows, outputs);
    exponentiate(scores, score_scale(), rows);
    pack_and_drop(block);
  }

  // S and P of a block, P V of the one before. kEdge: limits hide some of its scores.
  template <bool kEdge>
  __device__ __forceinline__ void next_block(int block) {
    inputs.read(column(block));
    const std::uint32_t query = query_operand(), key = key_operand(), value = value_operand();
    await_keys();
    await_turn();
    wgmma_fence();
    issue_scores(query, key);
    await_values();
    wgmma_fence();
    issue_outputs(value);
    pass_turn();
    inputs.prepare();
    wgmma_wait<1>();
    release_operands(block);
    inputs.apply(p, work, row(), column(block), block > work.first, scores);
    if constexpr (kEdge) hide_outside<S>(scores, work.limits, row(), column(block));
    const bool raises = kEdge || is_far_above(scores, score_scale(), rows);
    wgmma_wait_all(outputs);
    release_values();
    if (raises) raise_maximum(scores, score_scale(), rows, outputs);
    exponentiate(scores, score_scale(), rows);
    pack_and_drop(block);
  }

  // Padding behind the last key may be NaN, which a weight of 0 does not hide: its values become 0 in shared memory.
  // Every warpgroup does so for itself.
  __device__ __forceinline__ void clear_padding() {
    const int used = work.limits.key_count - (work.end - 1) * S::kKeys;
    if (used >= S::kKeys || work.limits.key_begin + work.limits.key_count >= p.key_length) return;
    await_values();
    const int pieces = (S::kKeys - used) * 8;  // of 16 bytes, in each chunk of 64 columns
    const std::uint32_t first = shared.value(values.stage()) + used * 128;
    for (int i = threadIdx.x % 128; i < S::kChunks * pieces; i += 128) {
      store_shared(first + i / pieces * S::kKeys * 128 + i % pieces * 16, make_uint4(0, 0, 0, 0));
    }
    fence_async();
    sync_group();
  }

  // All blocks of a tile: those that only later rows see, those at the right edge, those that all rows see whole, those
  // at the left edge.
  __device__ __forceinline__ void attend() {
    const int low_row = work.row + group * 64, high_row = low_row + 63, end = own_end<S>(work, group);
    int n = work.end - 1;
    if (end > work.first) inputs.read_first(column(end - 1));
    for (; warps_condition(n >= max(end, work.first)); --n) skip_block();
    if (warps_condition(end <= work.first)) return release_queries();
    int whole_begin = 0, whole_end = end - 1;
    if constexpr (S::kLimits) {
      whole_end = min(whole_end, max(0, low_row + work.limits.high + 1) / S::kKeys);
      whole_begin = max(work.first, (max(0, high_row + work.limits.low) + S::kKeys - 1) / S::kKeys);
    }
    first_block(n--);
    if constexpr (S::kLimits) {
      if (end == work.end) clear_padding();
      for (; warps_condition(n >= max(whole_end, work.first)); --n) next_block<true>(n);
    }
    for (; warps_condition(n >= whole_begin); --n) next_block<false>(n);
    if constexpr (S::kLimits) {
      for (; warps_condition(n >= work.first); --n) next_block<true>(n);
    }
    await_values();
    wgmma_fence();
    issue_outputs(value_operand());
    wgmma_wait_all(outputs);
    release_values();
  }

  // Divides O by the rows' sums and leaves it in shared memory; writes the log-sum-exp.
  __device__ __forceinline__ void finish_rows() {
    const float sink = S::kLimits && p.sinks ? static_cast<float>(p.sinks[work.head]) : 0.f;
    float factor[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const RowEnd end = finish_row(rows, r, score_scale(), S::kLimits && p.sinks, sink);
      factor[r] = S::kDropout ? end.factor * p.options.dropout_scale : end.factor;
      const int query = row() + 8 * r;
      if (lane % 4 == 0 && query < work.limits.query_length) {
        p.logsumexp[(static_cast<std::int64_t>(work.batch) * p.heads + work.head) * p.query_length +
                    work.limits.query_begin + query] = end.logsumexp;
      }
    }
    if constexpr (S::kLimits) report_not_finite();
    if (warp == 0 && lane == 0) tma_wait_read();  // the stores of the tile before
    sync_group();
#pragma unroll
    for (int c = 0; c < S::kDim / 16; ++c) {
      // Matrices: rows 0-7 and 8-15 of columns 16c .. 16c + 7, then of the next eight.
      const int matrix = lane / 8, in_group = warp * 16 + lane % 8 + matrix % 2 * 8, at = 16 * c + matrix / 2 * 8;
      const float* o = outputs + 8 * c;
      stmatrix(shared.output(group) + at / 64 * 64 * 128 + in_group * 128 + ((at % 64 / 8 ^ in_group % 8) << 4),
               pack<T>(o[0] * factor[0], o[1] * factor[0]), pack<T>(o[2] * factor[1], o[3] * factor[1]),
               pack<T>(o[4] * factor[0], o[5] * factor[0]), pack<T>(o[6] * factor[1], o[7] * factor[1]));
    }
    fence_async();
    sync_group();
  }

  // A masked value that is NaN or infinite shows in O, since 0 * NaN is NaN: such rows are computed again, later.
  __device__ __forceinline__ void report_not_finite() const {
    float zeros[4] = {};
#pragma unroll
    for (int i = 0; i < S::kDim / 2; ++i) zeros[i % 4] = fmaf(outputs[i], 0.f, zeros[i % 4]);
    if (zeros[0] + zeros[1] + zeros[2] + zeros[3] != 0.f) *p.not_finite = 1;
  }

  // From shared memory to the tensor. The rows behind the end of a packed sequence are another's.
  __device__ __forceinline__ void store_outputs() const {
    const int first_row = work.limits.query_begin + work.row + group * 64;
    const int count = work.limits.query_length - work.row - group * 64;
    if (S::kLimits && p.packed_tiles && count < 64) {
      T* target = static_cast<T*>(p.output_rows.data) + work.head * p.output_rows.head_stride;
      for (int i = threadIdx.x % 128; i < count * (S::kDim / 8); i += 128) {
        const int r = i / (S::kDim / 8), at = i % (S::kDim / 8) * 8;
        if (at >= p.value_dim) continue;
        const std::uint32_t from = shared.output(group) + at / 64 * 64 * 128 + r * 128 + ((at % 64 / 8 ^ r % 8) << 4);
        *reinterpret_cast<uint4*>(target + (first_row + r) * p.output_rows.row_stride + at) = load_shared(from);
      }
    } else if (warp == 0 && lane == 0) {
      for (int c = 0; c < p.output.loads; ++c) {
        tma_store_columns(&p.output.map, shared.output(group) + c * 64 * 128, 64 * c, first_row, work.head, work.batch);
      }
      tma_commit();
      if constexpr (S::kShareOutput) tma_wait_read();
    }
  }

  __device__ __forceinline__ void run() {
    Ring<2> slots;
    int query_parity = 0;
    if (S::kTurns && group == S::kGroups - 1) named_arrive(1, 256);  // the first turn is the first warpgroup's
    while (true) {
      work = shared.await_work(slots);
      if (warps_condition(work.sequence < 0)) break;
      inputs.begin(p, work, row(), shared.bias());
#pragma unroll
      for (int i = 0; i < S::kDim / 2; ++i) outputs[i] = 0.f;
      rows = {{-INFINITY, -INFINITY}, {0.f, 0.f}};
      barrier_wait(shared.query_full(group), query_parity);
      query_parity ^= 1;
      if (warps_condition(work.end > work.first)) {
        attend();
      } else {
        release_queries();
      }
      work = shared.read_work(slots);  // again, rather than kept in registers meanwhile
      finish_rows();
      store_outputs();
      shared.release_work(slots);
      if constexpr (S::kShareOutput) {
        __syncwarp();
        if (lane == 0) barrier_arrive(shared.query_empty(group));
      }
    }
    if (warp == 0 && lane == 0) tma_wait_read();  // shared memory lasts until the last stores have read it
  }
};

template <class S>
__global__ void __launch_bounds__(S::kThreads, 1) hopper_forward_kernel(const __grid_constant__ ForwardParams p) {
  extern __shared__ char raw[];
  const SharedLayout<S> shared(raw);
  if (threadIdx.x == 0) shared.init_barriers();
  cudaGridDependencySynchronize();  // what came before on the stream is done
  cudaTriggerProgrammaticLaunchCompletion();
  __syncthreads();
  if (threadIdx.x < 128) {
    registers_less<S::kProducerRegisters>();
    if (threadIdx.x == 0) produce<S>(p, shared);
  } else {
    registers_more<S::kConsumerRegisters>();
    ForwardConsumer<S>(p, shared).run();
  }
}

}  // namespace headway::inline v0::internal::cuda

// How a block of the Hopper backward uses its shared memory and barriers, and the copies it makes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "cuda/hopper_backward_rules.cuh"
#include "cuda/hopper_ptx.cuh"

namespace headway::inline v0::internal::cuda {

// kOrdered: blocks add to dQ in a fixed order, by tickets.
template <typename T, int kDim_, BackwardRules kRules, bool kOrdered_>
struct BackwardTiles {
  using Element = T;
  static constexpr int kDim = kDim_;
  static constexpr bool kOrdered = kOrdered_;
  static constexpr bool kLimited = kRules != BackwardRules::plain;  // causal, windows, packed sequences
  static constexpr bool kBias = kRules == BackwardRules::bias, kMask = kRules == BackwardRules::mask;
  static constexpr bool kAll = kRules == BackwardRules::all;
  static constexpr bool kDropout = kRules == BackwardRules::dropout || kAll;
  static constexpr bool kHides = kBias || kMask || kAll;  // hides single elements
  static constexpr bool kAdds = kBias || kAll;            // adds to the scores
  // Buffers of dQ before it is added to its sums, so that a block continues while it waits for its ticket. Without an
  // order, and where registers are short, dQ is added from registers.
  static constexpr int kSumBuffers = !kOrdered || kDim == 256 ? 0 : kDim == 64 ? (kBias ? 3 : 4) : kAdds ? 0 : 2;
  // The two warpgroups issue their products by turns, so that one adds to dQ while the other's products run.
  static constexpr bool kPingPong = kDim == 128 && kSumBuffers == 0;
  // K and V are read into registers once; else every product reads them from shared memory.
  static constexpr bool kFragments = kDim == 64;
  static constexpr int kKeys = backward_keys(kDim), kRows = kBackwardRows;
  static constexpr int kStages = kDim == 64 ? 4 : 2;  // copies of Q and dO under way, a power of two
  // Copies of the bias under way; 0: the lanes read it themselves.
  static constexpr int kBiasStages = kBias && kDim < 256 ? 2 : 0;
  static constexpr int kThreads = 384, kProducerRegisters = 24, kConsumerRegisters = 240;

  // All tiles are [column / 64][row][64 columns], swizzled by 128 bytes.
  static constexpr int kKeyBytes = kKeys * kDim * 2;     // K, V: (kKeys, kDim)
  static constexpr int kRowBytes = kRows * kDim * 2;     // Q, dO: (kRows, kDim)
  static constexpr int kScoreBytes = kKeys * kRows * 2;  // dS^T: (kKeys, kRows)
  static constexpr int kStatistics = kAdds ? 3 : 2;      // reference, delta, rest: (kRows) each
  static constexpr int kStatisticBytes = kStatistics * kRows * 4;
  static constexpr int kKeyAt = 0;
  static constexpr int kValueAt = kKeyAt + kKeyBytes;
  static constexpr int kQueryAt = kValueAt + kKeyBytes;               // kStages of them
  static constexpr int kDOutputAt = kQueryAt + kStages * kRowBytes;   // kStages of them
  static constexpr int kScoresAt = kDOutputAt + kStages * kRowBytes;  // two of them
  // P^T: (kKeys, kRows), two of them if kDim is 256
  static constexpr int kProbabilitiesAt = kScoresAt + 2 * kScoreBytes;
  // dQ on its way to its sums: (2, kDim / 16, 128, 4) in float32, kSumBuffers of them
  static constexpr int kSumBytes = kRows * kDim * 4;
  static constexpr int kSumsAt = kProbabilitiesAt + (kDim == 256 ? 2 * kScoreBytes : 0);
  // The bias of a warpgroup: (kRows, 64 keys), 2 * kBiasStages of them
  static constexpr int kBiasBytes = kRows * 64 * 2;
  static constexpr int kBiasAt = kSumsAt + kSumBuffers * kSumBytes;
  static constexpr int kStatisticsAt = kBiasAt + 2 * kBiasStages * kBiasBytes;  // kStages of them
  static constexpr int kBarriersAt = kStatisticsAt + kStages * kStatisticBytes;
  static constexpr int kPlaceAt = kBarriersAt + 336;
  static constexpr int kBytes = kPlaceAt + 64 + 1024;  // the base is rounded up to 1024
};

// The barriers in shared memory. Full: one arrival and the copied bytes; empty: one arrival of each consumer warp, or
// of each consumer thread (query_empty).
struct BackwardBarriers {
  std::uint32_t base;

  __device__ std::uint32_t query_full(int stage) const { return base + 8 * stage; }            // of 4 at most
  __device__ std::uint32_t query_empty(int stage) const { return base + 32 + 8 * stage; }      // likewise
  __device__ std::uint32_t d_output_full(int stage) const { return base + 64 + 8 * stage; }    // likewise
  __device__ std::uint32_t d_output_empty(int stage) const { return base + 96 + 8 * stage; }   // likewise
  __device__ std::uint32_t scores_full(int buffer) const { return base + 128 + 8 * buffer; }   // of 2
  __device__ std::uint32_t scores_empty(int buffer) const { return base + 144 + 8 * buffer; }  // likewise
  __device__ std::uint32_t key_full() const { return base + 160; }
  __device__ std::uint32_t value_full() const { return base + 168; }
  __device__ std::uint32_t key_free() const { return base + 176; }   // all products with K are done
  __device__ std::uint32_t turn_open() const { return base + 184; }  // this block may add its next dQ
  __device__ std::uint32_t turn_done() const { return base + 192; }  // all warps have added it
  __device__ std::uint32_t sums_full(int buffer) const { return base + 200 + 8 * buffer; }   // of 4
  __device__ std::uint32_t sums_empty(int buffer) const { return base + 232 + 8 * buffer; }  // likewise

  __device__ std::uint32_t bias_full(int slot) const { return base + 264 + 8 * slot; }   // of 2 stages, 2 warpgroups
  __device__ std::uint32_t bias_empty(int slot) const { return base + 296 + 8 * slot; }  // likewise

  // By one thread, before __syncthreads().
  __device__ void init() const {
    constexpr int kConsumerWarps = 8;
    for (int s = 0; s < 4; ++s) {
      barrier_init(query_full(s), 1);
      barrier_init(d_output_full(s), 1);
      barrier_init(query_empty(s), 32 * kConsumerWarps);
      barrier_init(d_output_empty(s), kConsumerWarps);
      barrier_init(sums_full(s), kConsumerWarps);
      barrier_init(sums_empty(s), 1);
      barrier_init(bias_full(s), 1);
      barrier_init(bias_empty(s), kConsumerWarps / 2);
    }
    for (int b = 0; b < 2; ++b) {
      barrier_init(scores_full(b), kConsumerWarps);
      barrier_init(scores_empty(b), kConsumerWarps);
    }
    barrier_init(key_full(), 1);
    barrier_init(value_full(), 1);
    barrier_init(key_free(), kConsumerWarps);
    barrier_init(turn_open(), 2);
    barrier_init(turn_done(), kConsumerWarps);
    barrier_init_fence();
  }
};

// ---- bulk copies of 64 columns; maps are over (columns, rows, heads, batch) ----
// Columns and rows outside the tensor arrive as zeros.
__device__ __forceinline__ void load_columns(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier,
                                             int column, int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, %6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch)
      : "memory");
}

// A tile of kRows rows and kDim columns.
template <int kRows, int kDim>
__device__ __forceinline__ void load_tile(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int row,
                                          int head, int batch) {
#pragma unroll
  for (int c = 0; c < kDim / 64; ++c) {
    load_columns(to + c * kRows * 128, map, barrier, c * 64, row, head, batch);
  }
}

// Columns and rows outside the tensor are not written.
__device__ __forceinline__ void store_columns(const CUtensorMap* map, std::uint32_t from, int column, int row, int head,
                                              int batch) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map),
               "r"(from), "r"(column), "r"(row), "r"(head), "r"(batch)
               : "memory");
}

// Adds contiguous float32 to global memory. The group's wait: until the sums are written, not only read.
__device__ __forceinline__ void bulk_add(float* to, std::uint32_t from, int bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes)
               : "memory");
}
__device__ __forceinline__ void bulk_wait_written() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// Between a bulk copy and ordinary accesses of the same global memory.
__device__ __forceinline__ void fence_bulk_copies() { asm volatile("fence.proxy.async;" ::: "memory"); }

// Lane 0's value: the compiler knows then that the warp shares it, and keeps it and what follows from it out of the
// lanes' registers.
__device__ __forceinline__ int warp_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// ---- turns between blocks ----
__device__ __forceinline__ int load_turn(const int* turn) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(turn) : "memory");
  return value;
}

// What other threads of the block added before a barrier with this one is visible to a block that sees the new turn.
__device__ __forceinline__ void store_turn(int* turn, int value) {
  asm volatile("fence.acq_rel.gpu;\nst.release.gpu.global.s32 [%0], %1;" ::"l"(turn), "r"(value) : "memory");
}

}  // namespace headway::inline v0::internal::cuda

// The Hopper backward: one block per 128 keys of a key head (64 where dims are above 128), which goes over the tiles of
// 64 queries that see them. One warpgroup copies and orders the sums of dQ, two compute.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/hopper_attention_backward.h"
#include "cuda/hopper_backward_consumer.cuh"
#include "cuda/hopper_backward_wide.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

// One thread: copies K and V once, and Q, dO and the rows' statistics tile by tile.
template <class Tiles>
__device__ __forceinline__ void copy_backward_tiles(const BackwardParameters& p, const BackwardWork& work,
                                                    std::uint32_t base) {
  const BackwardBarriers barriers{base + Tiles::kBarriersAt};
  barrier_expect(barriers.key_full(), Tiles::kKeyBytes);
  load_tile<Tiles::kKeys, Tiles::kDim>(base + Tiles::kKeyAt, &p.key, barriers.key_full(), work.key_begin + work.key0,
                                       work.kv_head, work.batch);
  barrier_expect(barriers.value_full(), Tiles::kKeyBytes);
  load_tile<Tiles::kKeys, Tiles::kDim>(base + Tiles::kValueAt, &p.value, barriers.value_full(),
                                       work.key_begin + work.key0, work.kv_head, work.batch);
  TileCursor cursor(work);
  for (int i = 0; i < work.tiles; ++i, cursor.advance()) {
    const int stage = i & (Tiles::kStages - 1), phase = i / Tiles::kStages & 1;
    const int row = work.query_begin + cursor.tile * Tiles::kRows;
    const std::int64_t at = tile_index(p, work, cursor.head, cursor.tile) * Tiles::kRows;
    const std::uint32_t query_full = barriers.query_full(stage), d_output_full = barriers.d_output_full(stage);
    barrier_wait(barriers.query_empty(stage), phase ^ 1);
    barrier_expect(query_full, Tiles::kRowBytes + Tiles::kStatisticBytes);
    load_tile<Tiles::kRows, Tiles::kDim>(base + Tiles::kQueryAt + stage * Tiles::kRowBytes, &p.query, query_full, row,
                                         cursor.head, work.batch);
    const std::uint32_t statistics = base + Tiles::kStatisticsAt + stage * Tiles::kStatisticBytes;
    bulk_load(statistics, p.reference + at, Tiles::kRows * 4, query_full);
    bulk_load(statistics + Tiles::kRows * 4, p.delta + at, Tiles::kRows * 4, query_full);
    if constexpr (Tiles::kAdds) {
      bulk_load(statistics + 2 * Tiles::kRows * 4, p.rest + at, Tiles::kRows * 4, query_full);
    }
    barrier_wait(barriers.d_output_empty(stage), phase ^ 1);
    barrier_expect(d_output_full, Tiles::kRowBytes);
    load_tile<Tiles::kRows, Tiles::kDim>(base + Tiles::kDOutputAt + stage * Tiles::kRowBytes, &p.d_output,
                                         d_output_full, row, cursor.head, work.batch);
  }
}

// One thread: copies the bias tile by tile, for each warpgroup its keys.
template <class Tiles>
__device__ __forceinline__ void copy_bias_tiles(const BackwardParameters& p, const BackwardWork& work,
                                                std::uint32_t base) {
  const BackwardBarriers barriers{base + Tiles::kBarriersAt};
  const int batch = p.bias.stride[0] == 0 ? 0 : work.batch;
  const bool same_rows = p.bias.stride[2] == 0;
  TileCursor cursor(work);
  for (int i = 0; i < work.tiles; ++i, cursor.advance()) {
    const int stage = i % Tiles::kBiasStages, phase = i / Tiles::kBiasStages & 1;
    const int row = same_rows ? 0 : cursor.tile * Tiles::kRows, head = p.bias.stride[1] == 0 ? 0 : cursor.head;
    for (int group = 0; group < 2; ++group) {
      const int slot = 2 * stage + group;
      barrier_wait(barriers.bias_empty(slot), phase ^ 1);
      barrier_expect(barriers.bias_full(slot), Tiles::kBiasBytes);
      load_columns(base + Tiles::kBiasAt + slot * Tiles::kBiasBytes, &p.bias.map, barriers.bias_full(slot),
                   work.key0 + group * 64, row, head, batch);
    }
  }
}

// One thread: waits until the blocks of earlier keys have added to a tile, and opens the turn.
template <class Tiles>
__device__ __forceinline__ void wait_for_turns(const BackwardParameters& p, const BackwardWork& work,
                                               std::uint32_t base) {
  const BackwardBarriers barriers{base + Tiles::kBarriersAt};
  TileCursor cursor(work);
  for (int i = 0; i < work.tiles; ++i, cursor.advance()) {
    const int* turn = p.turns + tile_index(p, work, cursor.head, cursor.tile);
    const int before = blocks_before<Tiles::kKeys>(p, work, cursor.tile);
    while (load_turn(turn) != before) {
    }
    barrier_arrive(barriers.turn_open());
    barrier_wait(barriers.turn_open(), i & 1);
  }
}

// One thread: when all warps have added to a tile, increments its ticket for the next block. Its own arrival at
// turn_open keeps the barriers from running ahead of it.
template <class Tiles>
__device__ __forceinline__ void pass_turns(const BackwardParameters& p, const BackwardWork& work, std::uint32_t base) {
  const BackwardBarriers barriers{base + Tiles::kBarriersAt};
  TileCursor cursor(work);
  for (int i = 0; i < work.tiles; ++i, cursor.advance()) {
    int* turn = p.turns + tile_index(p, work, cursor.head, cursor.tile);
    barrier_arrive(barriers.turn_open());
    barrier_wait(barriers.turn_done(), i & 1);
    store_turn(turn, blocks_before<Tiles::kKeys>(p, work, cursor.tile) + 1);
  }
}

// One thread of two: adds every second dQ that the consumers staged to the sums, when the block's ticket is served.
template <class Tiles>
__device__ __forceinline__ void add_staged_sums(const BackwardParameters& p, const BackwardWork& work,
                                                std::uint32_t base, int which) {
  const BackwardBarriers barriers{base + Tiles::kBarriersAt};
  TileCursor cursor(work);
  for (int i = 0; i < work.tiles; ++i, cursor.advance()) {
    if (i % 2 != which) continue;
    const int buffer = i % Tiles::kSumBuffers, phase = i / Tiles::kSumBuffers & 1;
    const std::int64_t index = tile_index(p, work, cursor.head, cursor.tile);
    const int before = blocks_before<Tiles::kKeys>(p, work, cursor.tile);
    if constexpr (Tiles::kOrdered) {
      while (load_turn(p.turns + index) != before) {
      }
      fence_bulk_copies();
    }
    barrier_wait(barriers.sums_full(buffer), phase);
    bulk_add(p.d_query_sums + index * (Tiles::kSumBytes / 4), base + Tiles::kSumsAt + buffer * Tiles::kSumBytes,
             Tiles::kSumBytes);
    tma_commit();
    if constexpr (Tiles::kOrdered) {
      bulk_wait_written();
      fence_bulk_copies();
      store_turn(p.turns + index, before + 1);
    } else {
      tma_wait_read();
    }
    barrier_arrive(barriers.sums_empty(buffer));
  }
}

template <class Tiles>
__global__ void __launch_bounds__(Tiles::kThreads, 1) backward_kernel(const __grid_constant__ BackwardParameters p) {
  extern __shared__ char raw[];
  const std::uint32_t base = (shared_address(raw) + 1023) / 1024 * 1024;
  char* memory = raw + (base - shared_address(raw));
  int* place = reinterpret_cast<int*>(memory + Tiles::kPlaceAt);
  if (threadIdx.x == 0) {
    BackwardBarriers{base + Tiles::kBarriersAt}.init();
    // A block of a later place waits only for earlier places, which have started: no order of blocks can deadlock.
    if constexpr (Tiles::kOrdered) *place = static_cast<int>(atomicAdd(p.ticket, 1u));
  }
  __syncthreads();
  const BackwardWork work =
      find_work<Tiles::kKeys>(p, Tiles::kOrdered ? warp_uniform(*place) : static_cast<int>(blockIdx.x));
  if (threadIdx.x < 128) {
    registers_less<Tiles::kProducerRegisters>();
    if (threadIdx.x == 0) copy_backward_tiles<Tiles>(p, work, base);
    if constexpr (Tiles::kBiasStages > 0) {
      if (threadIdx.x == 96) copy_bias_tiles<Tiles>(p, work, base);
    }
    if constexpr (Tiles::kSumBuffers > 0) {
      if (threadIdx.x == 32 || threadIdx.x == 64) add_staged_sums<Tiles>(p, work, base, threadIdx.x / 32 - 1);
    } else if constexpr (Tiles::kOrdered) {
      if (threadIdx.x == 32) wait_for_turns<Tiles>(p, work, base);
      if (threadIdx.x == 64) pass_turns<Tiles>(p, work, base);
    }
  } else {
    registers_more<Tiles::kConsumerRegisters>();
    using Consumer = std::conditional_t<Tiles::kDim == 256, WideBackwardConsumer<Tiles>, BackwardConsumer<Tiles>>;
    Consumer(p, work, base, memory).run();
  }
}

// How a launch differs from others of its size and type.
struct BackwardVariant {
  BackwardRules rules = BackwardRules::plain;
  bool ordered = true;
};

template <class Tiles>
void launch_backward_tiles(const BackwardParameters& p) {
  const auto kernel = backward_kernel<Tiles>;
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Tiles::kBytes),
             "attention_backward: shared memory");
  kernel<<<p.key_blocks * p.head_count, Tiles::kThreads, Tiles::kBytes, current_stream()>>>(p);
  check_launch("attention_backward");
}

// Calls launch_backward_tiles with the variant's template. Kernels without an order are made for the commonest rules.
template <typename T, int kDim>
void launch_backward(const BackwardParameters& p, BackwardVariant variant) {
  const auto launch = [&]<BackwardRules kRules, bool kOrdered>() {
    launch_backward_tiles<BackwardTiles<T, kDim, kRules, kOrdered>>(p);
  };
  switch (variant.rules) {
    case BackwardRules::plain:
      if (variant.ordered) return launch.template operator()<BackwardRules::plain, true>();
      return launch.template operator()<BackwardRules::plain, false>();
    case BackwardRules::limited:
      if (variant.ordered) return launch.template operator()<BackwardRules::limited, true>();
      return launch.template operator()<BackwardRules::limited, false>();
    case BackwardRules::dropout:
      return launch.template operator()<BackwardRules::dropout, true>();
    case BackwardRules::bias:
      return launch.template operator()<BackwardRules::bias, true>();
    case BackwardRules::mask:
      return launch.template operator()<BackwardRules::mask, true>();
    case BackwardRules::all:
      return launch.template operator()<BackwardRules::all, true>();
  }
}

// In files of their own, so that they compile side by side.
extern template void launch_backward<__nv_bfloat16, 64>(const BackwardParameters&, BackwardVariant);
extern template void launch_backward<__half, 64>(const BackwardParameters&, BackwardVariant);
extern template void launch_backward<__nv_bfloat16, 128>(const BackwardParameters&, BackwardVariant);
extern template void launch_backward<__half, 128>(const BackwardParameters&, BackwardVariant);
extern template void launch_backward<__nv_bfloat16, 256>(const BackwardParameters&, BackwardVariant);
extern template void launch_backward<__half, 256>(const BackwardParameters&, BackwardVariant);

}  // namespace headway::inline v0::internal::cuda

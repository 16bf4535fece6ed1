// How a block of the float32 kernels on Hopper comes by its tiles: warpgroups own 64 rows each and go through the rows
// of the other side, which one more thread brings, 64 at a time.
#pragma once

#include "cuda/hopper_ptx.cuh"

namespace headway::inline v0::internal::cuda {

// Threads of the warpgroup that brings the tiles. One of them does, but registers are given to warpgroups.
inline constexpr int kBringers = 128;
inline constexpr int kTileStages = 4;  // of streamed tiles

// Which of its items a block works on, counted over all blocks.
__device__ inline std::int64_t item_index(int item) { return blockIdx.x + static_cast<std::int64_t>(item) * gridDim.x; }

// This warp needs what a barrier guards no more.
__device__ __forceinline__ void release(std::uint64_t& barrier) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) barrier_arrive(shared_address(&barrier));
}

// The barriers of a block whose tiles kWarps warps read.
template <int kWarps>
struct TileBarriers {
  std::uint64_t owned_full, owned_empty, full[kTileStages], empty[kTileStages];

  // Before the first step.
  __device__ void init() {
    if (threadIdx.x != 0) return;
    barrier_init(shared_address(&owned_full), 1);
    barrier_init(shared_address(&owned_empty), kWarps);
    for (int i = 0; i < kTileStages; ++i) {
      barrier_init(shared_address(&full[i]), 1);
      barrier_init(shared_address(&empty[i]), kWarps);
    }
    barrier_init_fence();
  }
};

}  // namespace headway::inline v0::internal::cuda

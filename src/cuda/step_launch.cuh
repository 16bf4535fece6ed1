// The kernels of a decoding step. In a recorded step each starts while the one before it still runs (programmatic
// dependent launch): its blocks load what no kernel of a step writes, which is weights, and then wait.
//
// Every such kernel calls let_next_start() and then wait_for_previous() in all of its threads, and reads and writes
// what steps compute only after that. Then the end of a kernel implies the end of all before it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "cuda/kernel_choice.h"
#include "cuda/launch.h"
#include "cuda/recording.h"

namespace headway::inline v0::internal::cuda {

// Lets the next kernel's blocks start where there is space for them.
__device__ __forceinline__ void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
// Waits until the kernel before has ended and its results are visible.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Asks for the 128 bytes at an address to be in the L2 cache soon.
__device__ __forceinline__ void prefetch(const void* address) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

// ---- clusters: blocks that read each other's shared memory ----

__device__ __forceinline__ int cluster_rank() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
#else
  return 0;
#endif
}
// A barrier for all threads of the cluster; of the block where there are no clusters.
__device__ __forceinline__ void cluster_sync(int cluster) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    return;
  }
#endif
  __syncthreads();
}
// The same barrier in two parts, between which a thread may do other work. Nothing where there are no clusters.
__device__ __forceinline__ void cluster_arrive(int cluster) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
}
__device__ __forceinline__ void cluster_wait(int cluster) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
// A number in the shared memory of the block `rank` of the cluster, which lies there as `own` does here.
__device__ __forceinline__ float load_of_rank(const float* own, int rank, int cluster) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    const auto address = static_cast<unsigned>(__cvta_generic_to_shared(own));
    float value;
    asm volatile(
        "{\n.reg .u32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}"
        : "=f"(value)
        : "r"(address), "r"(rank)
        : "memory");
    return value;
  }
#endif
  return *own;
}

// Puts two or four numbers into the shared memory of the block `rank`, at the place of `own` there. The block must have
// started, which a barrier shows.
__device__ __forceinline__ void store_of_rank(float2* own, int rank, int cluster, float2 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    asm volatile(
        "{\n.reg .u32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "st.shared::cluster.v2.f32 [remote], {%2, %3};\n}" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(own))),
        "r"(rank), "f"(value.x), "f"(value.y)
        : "memory");
    return;
  }
#endif
  *own = value;
}
__device__ __forceinline__ void store_of_rank(float4* own, int rank, int cluster, float4 value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (cluster > 1) {
    asm volatile(
        "{\n.reg .u32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
        "st.shared::cluster.v4.f32 [remote], {%2, %3, %4, %5};\n}" ::"r"(
            static_cast<unsigned>(__cvta_generic_to_shared(own))),
        "r"(rank), "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w)
        : "memory");
    return;
  }
#endif
  *own = value;
}

// ---- host ----

// True where the kernel to be launched may start before the one before it has ended. Only what is recorded is known to
// be a step: a kernel outside of it may follow one that writes weights.
inline bool starts_early() { return is_recording() && device_properties().capability >= 90 && overlap_wanted(); }

struct StepLaunch {
  const char* name = nullptr;
  dim3 grid = {};
  unsigned threads = 0;
  std::size_t shared_bytes = 0;
  unsigned cluster = 1;  // blocks of a cluster along the grid's first dimension
};

template <typename Arguments>
void launch_step(const StepLaunch& launch, void (*kernel)(Arguments), const Arguments& arguments) {
  constexpr std::size_t kUnasked = 48 << 10;  // of shared memory
  if (launch.shared_bytes > kUnasked) {
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(launch.shared_bytes)),
               launch.name);
  }
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {.gridDim = launch.grid,
                               .blockDim = dim3(launch.threads),
                               .dynamicSmemBytes = launch.shared_bytes,
                               .stream = current_stream(),
                               .attrs = attributes,
                               .numAttrs = 0};
  if (launch.cluster > 1) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = launch.cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
  }
  if (starts_early()) {
    cudaLaunchAttribute& attribute = attributes[config.numAttrs++];
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
  }
  check_cuda(cudaLaunchKernelEx(&config, kernel, arguments), launch.name);
}

}  // namespace headway::inline v0::internal::cuda

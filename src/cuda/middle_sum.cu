// Sums over the middle one of three dimensions, in float64.
#include <algorithm>
#include <cstdint>

#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kWarps = 8;                 // of a block
constexpr std::int64_t kWarpRows = 1024;  // of the middle that a warp sums where inner is small
constexpr std::int64_t kBlockRows = 256;  // of the middle that a block sums, one column per lane
constexpr std::int64_t kFewColumns = 16;  // below it lanes go along the middle

// x (outer, middle, inner) -> target (outer, chunks, inner): the sums of runs of `rows` of the middle.
struct Sizes {
  std::int64_t outer = 1;
  std::int64_t middle = 1;
  std::int64_t inner = 1;
  std::int64_t rows = 1;
  std::int64_t chunks = 1;
};

template <typename T>
__device__ double to_double(T value) {
  return static_cast<double>(to_compute(value));
}

// A sum in the target's dtype, rounded once to float32 on the way to 16 bits.
template <typename T>
__device__ T from_double(double sum) {
  return from_compute<T>(static_cast<Compute<T>>(sum));
}

// One warp for each sum: lanes go along the middle.
template <typename To, typename From>
__global__ void sum_along_middle(const From* x, To* target, Sizes sizes) {
  const int lane = threadIdx.x, warp = threadIdx.y;
  const std::int64_t sums = sizes.outer * sizes.chunks * sizes.inner;
  for (std::int64_t i = blockIdx.x * std::int64_t{kWarps} + warp; i < sums; i += gridDim.x * std::int64_t{kWarps}) {
    const std::int64_t column = i % sizes.inner, chunk = i / sizes.inner % sizes.chunks;
    const std::int64_t outer = i / sizes.inner / sizes.chunks;
    const std::int64_t begin = chunk * sizes.rows, end = ::min(begin + sizes.rows, sizes.middle);
    const From* from = x + outer * sizes.middle * sizes.inner + column;
    double sum = 0;
#pragma unroll 8
    for (std::int64_t row = begin + lane; row < end; row += kWarp) sum += to_double(from[row * sizes.inner]);
    for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
    if (lane == 0) target[i] = from_double<To>(sum);
  }
}

// One column for each lane; the warps of a block share the rows of a chunk.
template <typename To, typename From>
__global__ void sum_columns(const From* x, To* target, Sizes sizes) {
  __shared__ double parts[kWarps][kWarp];  // (warps, columns)
  const int lane = threadIdx.x, warp = threadIdx.y;
  const std::int64_t strips = (sizes.inner + kWarp - 1) / kWarp;
  for (std::int64_t i = blockIdx.x; i < sizes.outer * sizes.chunks * strips; i += gridDim.x) {
    const std::int64_t column = i % strips * kWarp + lane, place = i / strips;  // place: (outer, chunks)
    const std::int64_t outer = place / sizes.chunks, chunk = place % sizes.chunks;
    const std::int64_t begin = chunk * sizes.rows, end = ::min(begin + sizes.rows, sizes.middle);
    const From* from = x + outer * sizes.middle * sizes.inner + column;
    double sum = 0;
    if (column < sizes.inner) {
#pragma unroll 8
      for (std::int64_t row = begin + warp; row < end; row += kWarps) sum += to_double(from[row * sizes.inner]);
    }
    parts[warp][lane] = sum;
    __syncthreads();
    if (warp == 0 && column < sizes.inner) {
      for (int other = 1; other < kWarps; ++other) sum += parts[other][lane];
      target[place * sizes.inner + column] = from_double<To>(sum);
    }
    __syncthreads();
  }
}

template <typename To, typename From>
void launch(const From* x, To* target, const Sizes& sizes) {
  const dim3 threads(kWarp, kWarps);
  if (sizes.inner < kFewColumns) {
    const unsigned blocks = grid_for(sizes.outer * sizes.chunks * sizes.inner, kWarps);
    sum_along_middle<<<blocks, threads, 0, current_stream()>>>(x, target, sizes);
    check_launch("sum_along_middle");
  } else {
    const unsigned blocks = grid_for(sizes.outer * sizes.chunks * ((sizes.inner + kWarp - 1) / kWarp), 1);
    sum_columns<<<blocks, threads, 0, current_stream()>>>(x, target, sizes);
    check_launch("sum_columns");
  }
}

// Sums runs of the middle into float64, then their sums, until one run is all.
template <typename To, typename From>
void sum(const From* x, To* target, Sizes sizes) {
  sizes.rows = sizes.inner < kFewColumns ? kWarpRows : kBlockRows;
  sizes.chunks = std::max<std::int64_t>(1, (sizes.middle + sizes.rows - 1) / sizes.rows);
  if (sizes.chunks == 1) return launch(x, target, sizes);
  const DeviceBuffer partial(static_cast<std::size_t>(sizes.outer * sizes.chunks * sizes.inner) *
                             sizeof(double));  // (outer, chunks, inner)
  launch(x, partial.as<double>(), sizes);
  sum<To, double>(partial.as<double>(), target, {.outer = sizes.outer, .middle = sizes.chunks, .inner = sizes.inner});
}

}  // namespace

void middle_sum_as(const MiddleSum& task, DType target_dtype) {
  if (task.outer == 0 || task.inner == 0) return;
  dispatch_elements(task.dtype, [&]<typename From>() {
    dispatch_elements(target_dtype, [&]<typename To>() {
      sum(reinterpret_cast<const From*>(task.x), reinterpret_cast<To*>(task.target),
          {.outer = task.outer, .middle = task.middle, .inner = task.inner});
    });
  });
}

void CudaBackend::middle_sum(const MiddleSum& task) {
  const OnGpu here = on_gpu();
  middle_sum_as(task, task.dtype);
}

}  // namespace headway::inline v0::internal::cuda

// Sums over all rows in one launch, with a change of the elements on the way.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/eight.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

inline constexpr int kColumnThreads = 512;
inline constexpr int kStrip = 32;                                      // columns of a block
inline constexpr int kStripThreads = kStrip / kEight;                  // threads beside each other
inline constexpr int kStripRows = kColumnThreads / kStripThreads;      // rows that a block takes at once
inline constexpr std::int64_t kMostStripRows = std::int64_t{1} << 15;  // more are too many for one block

// What is added up in: 16 bits have float32's sums of at most 2^15 of them, float32 has float64's.
template <typename T>
using StripSum = std::conditional_t<sizeof(T) == 2, float, double>;

// Whether the kernel takes elements of T: not float64, and rows of whole eights on boundaries of 16 bytes.
template <typename T, typename... Pointers>
bool fits_strips(std::int64_t rows, std::int64_t columns, Pointers... pointers) {
  return sizeof(T) <= 4 && rows > 0 && rows <= kMostStripRows && columns > 0 && columns % kEight == 0 &&
         ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// sums (columns) = the sums of function(a, b) over the rows of a and b (rows, columns), which is rounded to T and
// stored in result (rows, columns) where that is not null; result may be a or b; b null: zeros. The order of the sums
// follows from the number of rows. A block has a strip of columns.
template <typename T, typename Function>
__global__ void __launch_bounds__(kColumnThreads)
    sum_strips(T* result, const T* a, const T* b, std::int64_t rows, std::int64_t columns, T* sums, Function function) {
  constexpr int kAtOnce = 4, kWarps = kColumnThreads / 32;
  using Sum = StripSum<T>;
  __shared__ Sum parts[kWarps][kStrip];  // (warps, columns)
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kStrip + threadIdx.x % kStripThreads * kEight;
  Sum sum[kEight] = {};
  if (column < columns) {
    for (std::int64_t first = threadIdx.x / kStripThreads; first < rows; first += kStripRows * kAtOnce) {
      Eight<T> x[kAtOnce], y[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t at = (first + i * kStripRows) * columns + column;
        if (first + i * kStripRows >= rows) continue;
        x[i] = load_eight(a + at);
        if (b) y[i] = load_eight(b + at);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * kStripRows >= rows) continue;
#pragma unroll
        for (int j = 0; j < kEight; ++j) {
          x[i].values[j] = from_compute<T>(function(to_compute(x[i].values[j]), to_compute(y[i].values[j])));
          sum[j] += to_compute(x[i].values[j]);
        }
        if (result) store_eight(x[i], result + (first + i * kStripRows) * columns + column);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
#pragma unroll
    for (int distance = kStripThreads; distance < 32; distance *= 2) {
      sum[j] += __shfl_xor_sync(0xFFFFFFFF, sum[j], distance);
    }
    if (lane < kStripThreads) parts[warp][lane * kEight + j] = sum[j];
  }
  __syncthreads();
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * kStrip + threadIdx.x;
  if (threadIdx.x >= kStrip || own >= columns) return;
  Sum total = 0;
#pragma unroll
  for (int other = 0; other < kWarps; ++other) total += parts[other][threadIdx.x];
  sums[own] = from_compute<T>(static_cast<float>(total));
}

// Starts the kernel for memory that fits_strips().
template <typename T, typename Function>
void launch_strips(T* result, const T* a, const T* b, std::int64_t rows, std::int64_t columns, T* sums,
                   const Function& function) {
  const auto blocks = static_cast<unsigned>((columns + kStrip - 1) / kStrip);
  sum_strips<T><<<blocks, kColumnThreads, 0, current_stream()>>>(result, a, b, rows, columns, sums, function);
  check_launch("sum_strips");
}

}  // namespace headway::inline v0::internal::cuda

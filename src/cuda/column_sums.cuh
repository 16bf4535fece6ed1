// Sums over all rows, with a change of the elements on the way. The order of the sums follows from the sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/eight.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

inline constexpr int kColumnThreads = 512;

// What is added up in: float32 for 16 bits, else float64.
template <typename T>
using ColumnSum = std::conditional_t<sizeof(T) == 2, float, double>;

template <typename T>
struct ColumnCall {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t chunk_rows;
  const T* a;           // (rows, columns)
  const T* b;           // (rows, columns); null: zeros
  T* result;            // (rows, columns): function(a, b), rounded; may be a or b; null: not wanted
  ColumnSum<T>* parts;  // (chunks, columns); null: there is one chunk
  T* sums;              // (columns), of the only chunk
};

// The sums of function(a, b), rounded to T, over the rows of a chunk. A block (strip of columns, chunk) has
// kWidth threads beside each other with eight columns each.
template <int kWidth, typename T, typename Function>
__global__ void __launch_bounds__(kColumnThreads) sum_columns_of(ColumnCall<T> call, Function function) {
  using Sum = ColumnSum<T>;
  constexpr int kAtOnce = 4, kWarps = kColumnThreads / 32, kRows = kColumnThreads / kWidth;
  constexpr int kStrip = kWidth * kEight;
  __shared__ Sum shared[kWarps][kStrip];  // (warps, columns)
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kStrip + threadIdx.x % kWidth * kEight;
  const std::int64_t begin = blockIdx.y * call.chunk_rows, end = min(begin + call.chunk_rows, call.rows);
  Sum sum[kEight] = {};
  if (column < call.columns) {
    for (std::int64_t first = begin + threadIdx.x / kWidth; first < end; first += kRows * kAtOnce) {
      Eight<T> x[kAtOnce], y[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::int64_t at = (first + i * kRows) * call.columns + column;
        if (first + i * kRows >= end) continue;
        x[i] = load_eight(call.a + at);
        if (call.b) y[i] = load_eight(call.b + at);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + i * kRows >= end) continue;
#pragma unroll
        for (int j = 0; j < kEight; ++j) {
          x[i].values[j] = from_compute<T>(function(to_compute(x[i].values[j]), to_compute(y[i].values[j])));
          sum[j] += to_compute(x[i].values[j]);
        }
        if (call.result) store_eight(x[i], call.result + (first + i * kRows) * call.columns + column);
      }
    }
  }
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
#pragma unroll
    for (int distance = kWidth; distance < 32; distance *= 2) {
      sum[j] += __shfl_xor_sync(0xFFFFFFFF, sum[j], distance);
    }
    if (lane < kWidth) shared[warp][lane * kEight + j] = sum[j];
  }
  __syncthreads();
  const std::int64_t own = static_cast<std::int64_t>(blockIdx.x) * kStrip + threadIdx.x;
  if (threadIdx.x >= kStrip || own >= call.columns) return;
  Sum total = 0;
#pragma unroll
  for (int other = 0; other < kWarps; ++other) total += shared[other][threadIdx.x];
  if (call.parts) {
    call.parts[blockIdx.y * call.columns + own] = total;
  } else {
    call.sums[own] = from_compute<T>(static_cast<float>(total));
  }
}

// sums (columns) = the sums of parts (chunks, columns). Threads (32 columns, 8 chunks at once).
template <typename T>
__global__ void join_column_parts(const ColumnSum<T>* parts, std::int64_t chunks, std::int64_t columns, T* sums) {
  using Sum = ColumnSum<T>;
  constexpr int kColumns = 32, kChunks = 8;
  __shared__ Sum shared[kChunks][kColumns];  // (chunks at once, columns)
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  Sum sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (std::int64_t chunk = threadIdx.y; chunk < chunks; chunk += kChunks) sum += parts[chunk * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (int other = 1; other < kChunks; ++other) sum += shared[other][threadIdx.x];
  sums[column] = from_compute<T>(static_cast<float>(sum));
}

// Whether sum_columns() takes elements of T: not float64, and rows of whole eights on boundaries of 16 bytes.
template <typename T, typename... Pointers>
bool fits_columns(std::int64_t rows, std::int64_t columns, Pointers... pointers) {
  return sizeof(T) <= 4 && rows > 0 && columns > 0 && columns % kEight == 0 &&
         ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

// sums (columns) = the sums of function(a, b) over the rows of what fits_columns(). Little work is done in one launch,
// by blocks of a few columns; more by blocks that share the rows, and a second launch that joins their sums.
template <typename T, typename Function>
void sum_columns(T* result, const T* a, const T* b, std::int64_t rows, std::int64_t columns, T* sums,
                 const Function& function) {
  constexpr std::int64_t kLittle = std::int64_t{1} << 21, kMostRows = std::int64_t{1} << 13;
  constexpr std::int64_t kLeastRows = 64, kBlocks = 512;
  constexpr int kNarrow = 4, kWide = 32;
  ColumnCall<T> call = {rows, columns, rows, a, b, result, nullptr, sums};
  if (rows * columns <= kLittle && rows <= kMostRows) {
    const auto strips = static_cast<unsigned>((columns + kNarrow * kEight - 1) / (kNarrow * kEight));
    sum_columns_of<kNarrow><<<strips, kColumnThreads, 0, current_stream()>>>(call, function);
    check_launch("sum_columns_of");
    return;
  }
  const std::int64_t strips = (columns + kWide * kEight - 1) / (kWide * kEight);
  const std::int64_t wanted = std::max<std::int64_t>(1, kBlocks / strips);
  call.chunk_rows = std::max(kLeastRows, (rows + wanted - 1) / wanted);
  const std::int64_t chunks = (rows + call.chunk_rows - 1) / call.chunk_rows;
  const DeviceBuffer parts(static_cast<std::size_t>(chunks * columns) * sizeof(ColumnSum<T>));  // (chunks, columns)
  call.parts = parts.as<ColumnSum<T>>();
  const dim3 grid(static_cast<unsigned>(strips), static_cast<unsigned>(chunks));
  sum_columns_of<kWide><<<grid, kColumnThreads, 0, current_stream()>>>(call, function);
  check_launch("sum_columns_of");
  join_column_parts<T><<<static_cast<unsigned>((columns + 31) / 32), dim3(32, 8), 0, current_stream()>>>(
      call.parts, chunks, columns, sums);
  check_launch("join_column_parts");
}

}  // namespace headway::inline v0::internal::cuda

// Teams of threads that share a row: how it is walked along, and sums and maxima over it. The order of every sum
// follows from the length and the alignment of the rows alone.
#pragma once

#include <cuda_runtime.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kRowThreads = 256;  // of a block: eight rows of a warp each, or one row of the whole block

// Elements that lie side by side in memory, moved by one access.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

// The same, as they are computed in.
template <typename Real, int kCount>
struct Values {
  Real values[kCount];
  __device__ Real& operator[](int i) { return values[i]; }
  __device__ Real operator[](int i) const { return values[i]; }
};

template <int kCount, typename T>
__device__ Values<Compute<T>, kCount> load_values(const T* from) {
  const auto pack = *reinterpret_cast<const Pack<T, kCount>*>(from);
  Values<Compute<T>, kCount> values;
#pragma unroll
  for (int j = 0; j < kCount; ++j) values[j] = to_compute(pack.values[j]);
  return values;
}

// Elements i, i + 1, ... of an optional row; `otherwise` where there is none.
template <int kCount, typename T>
__device__ Values<Compute<T>, kCount> load_values_or(const T* row, std::int64_t i, Compute<T> otherwise) {
  if (row) return load_values<kCount>(row + i);
  Values<Compute<T>, kCount> values;
#pragma unroll
  for (int j = 0; j < kCount; ++j) values[j] = otherwise;
  return values;
}

template <int kCount, typename T>
__device__ void store_values(const Values<Compute<T>, kCount>& values, T* to) {
  Pack<T, kCount> pack;
#pragma unroll
  for (int j = 0; j < kCount; ++j) pack.values[j] = from_compute<T>(values[j]);
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// The first row of this thread's team, and how far on its next one is.
template <int kTeam>
__device__ std::int64_t first_row() {
  return static_cast<std::int64_t>(blockIdx.x) * (kRowThreads / kTeam) + threadIdx.x / kTeam;
}
template <int kTeam>
__device__ std::int64_t row_step() {
  return static_cast<std::int64_t>(gridDim.x) * (kRowThreads / kTeam);
}
// The thread's place in its team.
template <int kTeam>
__device__ int team_rank() {
  return static_cast<int>(threadIdx.x % kTeam);
}

// visit(i) for every pack of a row of `count` elements that is this thread's.
template <int kTeam, int kPack, typename Visit>
__device__ void for_each_pack(std::int64_t count, const Visit& visit) {
  for (std::int64_t i = team_rank<kTeam>() * kPack; i < count; i += kTeam * kPack) visit(i);
}

__device__ inline float exchange(float value, int distance) { return __shfl_xor_sync(0xFFFFFFFF, value, distance); }
__device__ inline double exchange(double value, int distance) { return __shfl_xor_sync(0xFFFFFFFF, value, distance); }

// Joins the values of a team: every thread gets the result. All threads of the team call it.
template <int kTeam, typename Value, typename Join>
__device__ Value team_reduce(Value value, const Join& join) {
  static_assert(kTeam % kWarp == 0);
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value = join(value, exchange(value, distance));
  if constexpr (kTeam > kWarp) {
    __shared__ Value parts[kTeam / kWarp];
    __syncthreads();  // the parts of the call before have been read
    if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
    __syncthreads();
    value = parts[0];
    for (int warp = 1; warp < kTeam / kWarp; ++warp) value = join(value, parts[warp]);
  }
  return value;
}

template <int kTeam, typename Real>
__device__ Real team_sum(Real value) {
  return team_reduce<kTeam>(value, [](Real a, Real b) { return a + b; });
}

// The sum of term(i) over the packs of a row.
template <typename Real, int kTeam, int kPack, typename Term>
__device__ Real sum_row(std::int64_t count, const Term& term) {
  Real sum = 0;
  for_each_pack<kTeam, kPack>(count, [&](std::int64_t i) { sum += term(i); });
  return team_sum<kTeam>(sum);
}

// The largest of some values and the sum of exp(value - largest). Only a sum of zero has a largest of -infinity.
template <typename Real>
struct PowerSum {
  Real largest;
  Real sum;
};
template <typename Real>
__device__ PowerSum<Real> exchange(PowerSum<Real> value, int distance) {
  return {exchange(value.largest, distance), exchange(value.sum, distance)};
}
// What powers are taken relative to: never -infinity, whose distance from itself is NaN.
template <typename Real>
__device__ Real power_reference(Real largest) {
  return largest == -static_cast<Real>(INFINITY) ? Real(0) : largest;
}

// One pass over a row. NaN and +infinity make the sum NaN.
template <int kTeam, int kPack, typename T>
__device__ PowerSum<Compute<T>> power_sum_row(const T* row, std::int64_t count) {
  using Real = Compute<T>;
  PowerSum<Real> all = {-static_cast<Real>(INFINITY), 0};
  for_each_pack<kTeam, kPack>(count, [&](std::int64_t i) {
    const auto x = load_values<kPack>(row + i);
    Real largest = all.largest;
#pragma unroll
    for (int j = 0; j < kPack; ++j) largest = fmax(largest, x[j]);
    const Real reference = power_reference(largest);
    if (largest != all.largest) all.sum *= ::exp(all.largest - reference);
#pragma unroll
    for (int j = 0; j < kPack; ++j) all.sum += ::exp(x[j] - reference);
    all.largest = largest;
  });
  return team_reduce<kTeam>(all, [](PowerSum<Real> a, PowerSum<Real> b) {
    const Real largest = fmax(a.largest, b.largest), reference = power_reference(largest);
    return PowerSum<Real>{largest, a.sum * ::exp(a.largest - reference) + b.sum * ::exp(b.largest - reference)};
  });
}

// Calls f.template operator()<kTeam, kPack>(): a warp for short rows of T, a block for long ones; packs of 16 bytes
// where all of the (optional) rows allow them.
template <typename T, typename Function>
void with_team(std::int64_t columns, std::initializer_list<const void*> rows, const Function& f) {
  constexpr std::int64_t kLongRow = 1024;
  constexpr int kFull = 16 / sizeof(T);
  bool packs = columns % kFull == 0;
  for (const void* row : rows) packs = packs && reinterpret_cast<std::uintptr_t>(row) % 16 == 0;
  if (packs) {
    if (columns > kLongRow) return f.template operator()<kRowThreads, kFull>();
    return f.template operator()<kWarp, kFull>();
  }
  if (columns > kLongRow) return f.template operator()<kRowThreads, 1>();
  return f.template operator()<kWarp, 1>();
}

// Blocks for a team per row.
template <int kTeam>
unsigned row_blocks(std::int64_t rows) {
  return grid_for(rows, kRowThreads / kTeam);
}

}  // namespace headway::inline v0::internal::cuda

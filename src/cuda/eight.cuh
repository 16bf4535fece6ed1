// Eight neighbouring elements, which a thread moves at once.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"

namespace headway::inline v0::internal::cuda {

inline constexpr int kEight = 8;

template <typename T>
struct alignas(16) Eight {
  T values[kEight];
};

template <typename T>
__device__ Eight<T> load_eight(const T* from) {
  return *reinterpret_cast<const Eight<T>*>(from);
}

template <typename T>
__device__ void store_eight(const Eight<T>& values, T* to) {
  *reinterpret_cast<Eight<T>*>(to) = values;
}

// Elements i ... of an optional row; `otherwise` where there is none.
template <typename T>
__device__ Eight<T> load_eight_or(const T* row, std::int64_t i, Compute<T> otherwise) {
  if (row) return load_eight(row + i);
  Eight<T> values;
#pragma unroll
  for (T& value : values.values) value = from_compute<T>(otherwise);
  return values;
}

}  // namespace headway::inline v0::internal::cuda

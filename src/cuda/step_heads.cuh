// New tokens of a decoding step: norm and rotation of one head, by a warp.
#pragma once

#include <cstdint>

#include "cuda/element.cuh"
#include "cuda/reduce.cuh"

namespace headway::inline v0::internal::cuda {

// CacheAppend on the GPU.
template <typename T>
struct AppendArguments {
  T* projected;                   // (rows, heads + 2 * kv_heads, head_dim), rows `stride` apart; null: no new tokens
  const std::int64_t* positions;  // (rows)
  const std::int32_t* entries;    // (rows); null: row r has entry r
  T* cache;                       // (entry_count, capacity, 2, kv_heads, head_dim)
  std::int32_t* origins;          // (rows, capacity); null: not written
  const T* query_norm;            // (head_dim); null: none
  const T* key_norm;              // (head_dim); null: none
  const float* rotation;          // (rotation_length, dims): cosines, then sines; null: none
  std::int64_t rows, stride, entry_count, capacity, rotation_length;
  int heads, kv_heads, head_dim, dims;
  Compute<T> epsilon;
  bool interleaved;
};

// The place of a row's new token.
template <typename T>
struct NewToken {
  std::int64_t position = -1, entry = -1;
  bool is_inside = false;           // of the cache
  const float* rotation = nullptr;  // (dims); null: none

  __device__ NewToken(const AppendArguments<T>& a, std::int64_t row) {
    position = a.positions[row];
    entry = a.entries ? a.entries[row] : row;
    is_inside = position >= 0 && position < a.capacity && entry >= 0 && entry < a.entry_count;
    if (a.rotation && position >= 0 && position < a.rotation_length) rotation = a.rotation + position * a.dims;
  }
  // Where a head's key goes; its value is `kv_heads` heads further on.
  __device__ T* key(const AppendArguments<T>& a, int kv_head) const {
    return a.cache + ((entry * a.capacity + position) * 2 * a.kv_heads + kv_head) * a.head_dim;
  }
};

// target(d, value) for every element of rotate(norm(source)), by the lanes of a warp; `norm` and `rotation` may be
// null. memory: (head_dim), the warp's own.
template <typename T, typename Target>
__device__ void transform_head(const AppendArguments<T>& a, const T* source, const T* norm, const float* rotation,
                               Compute<T>* memory, const Target& target) {
  using Real = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, half = a.dims / 2;
  __syncwarp();  // what the call before left in the memory has been read
  Real squares = 0;
  for (int d = lane; d < a.head_dim; d += kWarp) {
    const Real value = to_compute(source[d]);
    memory[d] = value;
    squares += value * value;
  }
  Real inverse = 1;
  if (norm) {
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) squares += exchange(squares, distance);
    inverse = 1 / ::sqrt(squares / static_cast<Real>(a.head_dim) + a.epsilon);
  }
  __syncwarp();
  const auto normed = [&](int d) { return norm ? memory[d] * inverse * to_compute(norm[d]) : memory[d]; };
  for (int d = lane; d < a.head_dim; d += kWarp) {
    Real value = normed(d);
    if (rotation && d < a.dims) {
      const bool is_first = a.interleaved ? d % 2 == 0 : d < half;
      const int pair = a.interleaved ? d / 2 : (is_first ? d : d - half);
      const int other = a.interleaved ? d ^ 1 : (is_first ? d + half : d - half);
      const Real turned = normed(other) * static_cast<Real>(rotation[half + pair]);
      value = value * static_cast<Real>(rotation[pair]) + (is_first ? -turned : turned);
    }
    target(d, value);
  }
}

}  // namespace headway::inline v0::internal::cuda

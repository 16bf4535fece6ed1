// Norms of the rows of a decoding step, eight columns of a row at a time.
#pragma once

#include <cstdint>

#include "backend/decoding_tasks.h"
#include "cuda/element.cuh"
#include "cuda/hopper_ptx.cuh"
#include "cuda/reduce.cuh"
#include "cuda/step_launch.cuh"

namespace headway::inline v0::internal::cuda {

inline constexpr int kNormWarps = 8;  // that share a row
inline constexpr int kNormThreads = kNormWarps * kWarp;

template <typename T>
struct RowNorm {
  const T* weight;  // (depth); null: ones
  const T* bias;    // (depth); null: zeros
  int depth;        // a multiple of 8
  StepNorm kind;
  float epsilon;
};

// A barrier for the threads that share a row.
__device__ __forceinline__ void norm_barrier() { named_sync(1, kNormThreads); }

// The sum of a value over the threads that share a row; all of them call it.
__device__ __forceinline__ float row_sum(float value) {
  __shared__ float parts[kNormWarps];
#pragma unroll
  for (int distance = kWarp / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(0xFFFFFFFF, value, distance);
  norm_barrier();  // the parts of the call before have been read
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = value;
  norm_barrier();
  float sum = 0;
#pragma unroll
  for (const float part : parts) sum += part;
  return sum;
}

template <typename T>
__device__ __forceinline__ void unpack(uint4 bits, float (&values)[8]) {
  const T* elements = reinterpret_cast<const T*>(&bits);
#pragma unroll
  for (int j = 0; j < 8; ++j) values[j] = to_compute(elements[j]);
}

// Eight numbers of a row.
template <typename T>
__device__ __forceinline__ uint4 load_eight(const T* row, int column) {
  return *reinterpret_cast<const uint4*>(row + column);
}

// norm(x) of a row, by kNormThreads threads. Its first kKept * 8 columns of a thread stay in registers between the
// passes.
template <typename T>
__device__ void norm_row(const RowNorm<T>& norm, const T* x, T* result) {
  constexpr int kKept = 2, kStep = kNormThreads * 8;
  const int place = static_cast<int>(threadIdx.x) * 8;
  uint4 kept[kKept] = {};
#pragma unroll
  for (int i = 0; i < kKept; ++i) {
    if (place + i * kStep < norm.depth) kept[i] = load_eight(x, place + i * kStep);
  }
  // visit(column, bits) for the thread's columns.
  const auto each = [&](const auto& visit) {
#pragma unroll
    for (int i = 0; i < kKept; ++i) {
      if (place + i * kStep < norm.depth) visit(place + i * kStep, kept[i]);
    }
    for (int column = place + kKept * kStep; column < norm.depth; column += kStep) visit(column, load_eight(x, column));
  };
  const auto count = static_cast<float>(norm.depth);
  float mean = 0, values[8];
  if (norm.kind == StepNorm::layer) {
    float sum = 0;
    each([&](int, uint4 bits) {
      unpack<T>(bits, values);
#pragma unroll
      for (const float value : values) sum += value;
    });
    mean = row_sum(sum) / count;
  }
  float squares = 0;
  each([&](int, uint4 bits) {
    unpack<T>(bits, values);
#pragma unroll
    for (const float value : values) squares += (value - mean) * (value - mean);
  });
  const float inverse = 1 / sqrtf(row_sum(squares) / count + norm.epsilon);
  each([&](int column, uint4 bits) {
    float weight[8], bias[8];
    unpack<T>(bits, values);
    if (norm.weight) unpack<T>(load_eight(norm.weight, column), weight);
    if (norm.bias) unpack<T>(load_eight(norm.bias, column), bias);
    T* elements = reinterpret_cast<T*>(&bits);
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      float value = (values[j] - mean) * inverse;
      if (norm.weight) value *= weight[j];
      if (norm.bias) value += bias[j];
      elements[j] = from_compute<T>(value);
    }
    *reinterpret_cast<uint4*>(result + column) = bits;
  });
}

// Asks for the norm's weights, which would come late when the rows are there.
template <typename T>
__device__ void prefetch_norm(const RowNorm<T>& norm) {
  constexpr int kLine = 128 / sizeof(T);
  for (int column = static_cast<int>(threadIdx.x) * kLine; column < norm.depth; column += kNormThreads * kLine) {
    if (norm.weight) prefetch(norm.weight + column);
    if (norm.bias) prefetch(norm.bias + column);
  }
}

}  // namespace headway::inline v0::internal::cuda

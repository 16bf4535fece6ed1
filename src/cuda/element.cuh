// Element types on the GPU: what they are called there, and what is computed in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "core/dispatch.h"
#include "headway/dtype.h"

namespace headway::inline v0::internal::cuda {

// The type in which sums and products of T are computed: float64 for float64, else float32.
template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

__device__ inline float to_compute(float value) { return value; }
__device__ inline double to_compute(double value) { return value; }
__device__ inline float to_compute(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ inline float to_compute(__half value) { return __half2float(value); }

template <typename T>
__device__ inline T from_compute(Compute<T> value) {
  if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else if constexpr (std::is_same_v<T, __half>) {
    return __float2half_rn(value);
  } else {
    return value;
  }
}

// The GPU's element type.
template <typename T>
using DeviceElement = std::conditional_t<std::is_same_v<T, bfloat16>, __nv_bfloat16,
                                         std::conditional_t<std::is_same_v<T, float16>, __half, T>>;

// Calls f.template operator()<T>() with the GPU's type of a floating dtype.
template <typename Function>
void dispatch_elements(DType dtype, const Function& f) {
  dispatch_floating(dtype, [&]<typename T>() { f.template operator()<DeviceElement<T>>(); });
}

}  // namespace headway::inline v0::internal::cuda

// What libheadway asks of libheadway_cuda.so: one function, which both sides include from here.
#pragma once

#include "backend/backend.h"

namespace headway::inline v0::internal {

// Changes with every change of backend/backend.h or what it includes: both libraries come from one build.
inline constexpr int kCudaInterface = 2;
inline constexpr const char* kCudaEntryName = "headway_cuda_devices";

struct CudaDevices {
  const char* problem = "";  // why CUDA cannot be used; empty where it can
  int count = 0;
  DeviceBackend* (*backend)(int index) = nullptr;  // lives as long as the library
};

using CudaEntry = CudaDevices (*)(int interface);

}  // namespace headway::inline v0::internal

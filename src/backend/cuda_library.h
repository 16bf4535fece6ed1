// The interface of libheadway_cuda.so to libheadway: two C functions, declared here for both sides.
#pragma once

#include "backend/registry.h"
#include "base/interface_hash.h"

namespace headway::inline v0::internal {

// const char* headway_cuda_interface(): the kInterfaceHash that the library was built with. Called first.
inline constexpr const char* kCudaInterfaceName = "headway_cuda_interface";
using CudaInterface = const char* (*)();

// void headway_cuda_devices(DeviceList* devices): fills the list.
inline constexpr const char* kCudaDevicesName = "headway_cuda_devices";
using CudaDevices = void (*)(DeviceList* devices);

}  // namespace headway::inline v0::internal

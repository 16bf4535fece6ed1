// What libheadway asks of libheadway_cuda.so: two C functions, which both sides know from here.
#pragma once

#include "backend/registry.h"

namespace headway::inline v0::internal {

// A hash of the headers through which both libraries call each other, written by cmake/interface_hash.cmake. Virtual
// functions and structs are called and read by their places, so only libraries with the same hash fit together.
extern const char* const kInterfaceHash;

// const char* headway_cuda_interface(): the kInterfaceHash that the library was built with. Asked first.
inline constexpr const char* kCudaInterfaceName = "headway_cuda_interface";
using CudaInterface = const char* (*)();

// DeviceList headway_cuda_devices().
inline constexpr const char* kCudaDevicesName = "headway_cuda_devices";
using CudaDevices = DeviceList (*)();

}  // namespace headway::inline v0::internal

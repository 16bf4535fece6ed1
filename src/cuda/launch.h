// What every caller of a kernel needs: the thread's stream, checked calls, temporary memory.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "base/check.h"

namespace headway::inline v0::internal::cuda {

// The stream to which this thread's work goes.
cudaStream_t current_stream();

// Throws an Error that names the call where it failed.
inline void check_cuda(cudaError_t error, const char* call) {
  if (error == cudaSuccess) [[likely]]
    return;
  cudaGetLastError();  // so that the next call does not report it again
  fail("cuda: ", call, ": ", cudaGetErrorString(error));
}

// After a kernel<<<...>>>: throws where it could not be started.
inline void check_launch(const char* kernel) { check_cuda(cudaGetLastError(), kernel); }

struct DeviceProperties {
  int multiprocessors = 0;
  int capability = 0;  // 90 for compute capability 9.0
  int shared_memory_per_block = 0;
};
// Of the thread's current GPU.
const DeviceProperties& device_properties();

// Stream-ordered memory of the device. Null for no bytes.
void* allocate(std::size_t bytes);
void release(void* memory) noexcept;

// Temporary memory of the device, given back when the object goes; work already started may still use it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t bytes) : data_(allocate(bytes)) {}
  DeviceBuffer(DeviceBuffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }
  ~DeviceBuffer() { release(data_); }

  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
};

// A copy of host values in temporary memory; the source may be changed once the call returns.
DeviceBuffer upload_bytes(const void* source, std::size_t bytes);
template <typename T>
DeviceBuffer upload(std::span<const T> values) {
  return upload_bytes(values.data(), values.size_bytes());
}

// Blocks for `count` elements at `per_block` each, as many as a grid takes; kernels stride over the rest.
inline unsigned grid_for(std::int64_t count, std::int64_t per_block) {
  constexpr std::int64_t kMostBlocks = 1 << 20;
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < kMostBlocks ? blocks : kMostBlocks);
}

}  // namespace headway::inline v0::internal::cuda

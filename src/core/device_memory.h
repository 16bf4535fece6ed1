// The memory interface of a device, for tensors and their gradients. Operations use backend/backend.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/memory_block.h"
#include "headway/device.h"
#include "headway/dtype.h"
#include "headway/shape.h"

namespace headway::inline v0::internal {

struct StridedTarget {
  void* data;
  Shape strides;  // in elements
  DType dtype;
};

struct StridedSource {
  const void* data;
  Shape strides;  // in elements; 0 where broadcast
  DType dtype;
};

// x (outer, middle, inner), dense -> target (outer, inner): the sum over the middle, of one floating dtype, taken in
// float64. The target has elements; an empty middle yields zeros.
struct MiddleSum {
  DType dtype = DType::float32;
  std::int64_t outer = 1;
  std::int64_t middle = 1;
  std::int64_t inner = 1;
  const std::byte* x = nullptr;
  std::byte* target = nullptr;
};

// A call may return before its work is done; the next one on the same thread sees its results.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;

  // Memory aligned to 64 bytes at least; throws an Error where there is not enough.
  virtual MemoryBlock allocate(std::size_t bytes) = 0;
  virtual MemoryBlock allocate_zeroed(std::size_t bytes) = 0;
  // Work that was enqueued before may still use it. Never throws.
  virtual void release(const MemoryBlock& block) noexcept = 0;

  // `source` is the host's and may be changed once the call returns.
  virtual void copy_to_device(void* target, const void* source, std::size_t bytes) = 0;
  // `target` is the host's. Waits until the bytes have arrived.
  virtual void copy_to_host(void* target, const void* source, std::size_t bytes) = 0;
  // target[i] = source[i] for every index i of the shape, which has elements; with conversion, and a user's bool may be
  // any byte. The two do not overlap.
  virtual void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) = 0;
  // target[i] = value for every index i of the shape, which has elements.
  virtual void fill(const StridedTarget& target, const Shape& shape, double value) = 0;

  // sum (count) += more (count), both dense and of one floating dtype.
  virtual void accumulate(DType dtype, std::int64_t count, void* sum, const void* more) = 0;
  virtual void middle_sum(const MiddleSum& task) = 0;
};

// A device's memory. The registry of backends defines it (backend/registry.cpp); throws where there is no such device.
DeviceMemory& memory_of(Device device);

}  // namespace headway::inline v0::internal

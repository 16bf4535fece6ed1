// Memory of the host itself: what the CPU does as a DeviceMemory.
#pragma once

#include <cstring>

#include "core/aligned_memory.h"
#include "core/device_memory.h"

namespace headway::inline v0::internal::cpu {

// As DeviceMemory::strided_copy and DeviceMemory::fill.
void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape);
void fill(const StridedTarget& target, const Shape& shape, double value);

// Interface: DeviceMemory, or what is derived from it.
template <typename Interface>
class HostMemory : public Interface {
 public:
  MemoryBlock allocate(std::size_t bytes) override { return allocate_block(bytes); }
  MemoryBlock allocate_zeroed(std::size_t bytes) override { return allocate_zeroed_block(bytes); }
  void release(const MemoryBlock& block) noexcept override { give_block_back(block); }
  void copy_to_device(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void copy_to_host(void* target, const void* source, std::size_t bytes) override {
    std::memcpy(target, source, bytes);
  }
  void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape) override {
    cpu::strided_copy(target, source, shape);
  }
  void fill(const StridedTarget& target, const Shape& shape, double value) override { cpu::fill(target, shape, value); }
};

}  // namespace headway::inline v0::internal::cpu

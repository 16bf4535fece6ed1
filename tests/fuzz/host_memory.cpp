// The memory that tensors of the fuzz targets have: core and io are built without a backend, and so without kernels.
#include <cstdlib>
#include <cstring>

#include "core/aligned_memory.h"
#include "core/device_memory.h"
#include "cpu/strided_copy.h"

namespace headway::inline v0::internal {
namespace {

class HostMemory final : public DeviceMemory {
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
  // Nothing that is read from a file has a gradient.
  void accumulate(DType, std::int64_t, void*, const void*) override { std::abort(); }
  void middle_sum(const MiddleSum&) override { std::abort(); }
};

}  // namespace

DeviceMemory& memory_of(Device) {
  static auto* memory = new HostMemory;
  return *memory;
}

}  // namespace headway::inline v0::internal

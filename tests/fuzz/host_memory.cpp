// The memory that tensors of the fuzz targets have: core and io are built without a backend, and so without kernels.
#include "cpu/host_memory.h"

#include <cstdlib>

namespace headway::inline v0::internal {
namespace {

// Nothing that is read from a file has a gradient.
class MemoryOfFiles final : public cpu::HostMemory<DeviceMemory> {
 public:
  void accumulate(DType, std::int64_t, void*, const void*) override { std::abort(); }
  void middle_sum(const MiddleSum&) override { std::abort(); }
};

}  // namespace

DeviceMemory& memory_of(Device) {
  static auto* memory = new MemoryOfFiles;
  return *memory;
}

}  // namespace headway::inline v0::internal

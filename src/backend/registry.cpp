#include "backend/registry.h"

#include "base/check.h"

namespace headway::inline v0::internal {
namespace {

// Never destroyed: tensors of static duration may need their backend to the end.
const Devices* list_devices(const DeviceList& list) {
  auto* devices = new Devices{.problem = list.problem, .backends = {}};
  for (int index = 0; index < list.count; ++index) devices->backends.push_back(list.backend(index));
  return devices;
}

}  // namespace

const Devices& devices_of(Device::Kind kind) {
  switch (kind) {
    case Device::Kind::cpu: {
      static const Devices* const cpu = list_devices(cpu_devices());
      return *cpu;
    }
    case Device::Kind::cuda: {
      static const Devices* const cuda = list_devices(cuda_devices());
      return *cuda;
    }
  }
  fail("device: there is no kind numbered ", static_cast<int>(kind));
}

Backend& backend_of(Device device) {
  const Devices& devices = devices_of(device.kind);
  const auto index = static_cast<std::size_t>(device.index);
  if (device.index >= 0 && index < devices.backends.size()) return *devices.backends[index];
  const char* kind = device.is_cpu() ? "cpu" : "cuda";
  check(devices.problem.empty(), kind, ": ", devices.problem);
  fail(kind, ": there is no device ", device.index, ", expected 0 to ",
       static_cast<std::int64_t>(devices.backends.size()) - 1);
}

DeviceMemory& memory_of(Device device) { return backend_of(device); }

}  // namespace headway::inline v0::internal

// The registry of backends: one entry for each kind of device, the CPU included.
#pragma once

#include <string>
#include <vector>

#include "backend/backend.h"
#include "headway/tensor.h"

namespace headway::inline v0::internal {

// The devices of one kind, as their backend reports them.
struct DeviceList {
  const char* problem = "";  // why none can be used; empty where they can
  int count = 0;
  Backend* (*backend)(int index) = nullptr;  // lives as long as the process
};

// The entry of each kind, called once. src/cpu defines the CPU's; the GPUs' opens libheadway_cuda.
DeviceList cpu_devices();
DeviceList cuda_devices();

// The registry's entry of a kind.
struct Devices {
  std::string problem;  // empty where they can be used
  std::vector<Backend*> backends;
};

const Devices& devices_of(Device::Kind kind);

// The backend of a device; throws where there is none.
Backend& backend_of(Device device);

// The backend of the tensor's device.
inline Backend& backend_of(const Tensor& tensor) { return backend_of(tensor.device()); }

}  // namespace headway::inline v0::internal

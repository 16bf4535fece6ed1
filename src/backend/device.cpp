// Devices by name, and the members that need a backend.
#include "headway/device.h"

#include <charconv>
#include <optional>

#include "backend/registry.h"
#include "base/check.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// N of "cuda:N", 0 of "cuda".
std::optional<int> cuda_index(const std::string& name) {
  const std::string prefix = "cuda";
  if (!name.starts_with(prefix)) return {};
  if (name.size() == prefix.size()) return 0;
  int index = 0;
  const char* begin = name.data() + prefix.size() + 1;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(begin, end, index);
  if (name[prefix.size()] != ':' || begin >= end || error != std::errc() || rest != end || index < 0) return {};
  return index;
}

}  // namespace
}  // namespace internal

Device Device::cuda(int index) {
  const Device device{.kind = Kind::cuda, .index = index};
  internal::backend_of(device);
  return device;
}

Device Device::parse(const std::string& name) {
  if (name == "cpu") return cpu();
  const std::optional<int> index = internal::cuda_index(name);
  internal::check(index.has_value(), "device: \"", name, "\" is not known, expected cpu, cuda or cuda:N");
  return cuda(*index);
}

bool Device::is_name(const std::string& name) { return name == "cpu" || internal::cuda_index(name).has_value(); }

int cuda_device_count() { return static_cast<int>(internal::devices_of(Device::Kind::cuda).backends.size()); }

std::string describe_cuda() {
  const internal::Devices& devices = internal::devices_of(Device::Kind::cuda);
  if (!devices.problem.empty()) return "not available: " + devices.problem;
  std::string text;
  for (internal::Backend* backend : devices.backends) text += (text.empty() ? "" : "; ") + backend->description();
  return text;
}

void synchronize(Device device) { internal::backend_of(device).synchronize(); }

CudaStreamGuard::CudaStreamGuard(Device device, void* stream) : device_(device) {
  internal::check(!device.is_cpu(), "CudaStreamGuard: the device is cpu, expected a GPU");
  internal::Backend& backend = internal::backend_of(device);
  previous_ = backend.stream();
  backend.set_stream(stream);
}

CudaStreamGuard::~CudaStreamGuard() { internal::backend_of(device_).set_stream(previous_); }

DeviceGraph::DeviceGraph(Device device, const std::function<void()>& work) {
  internal::check(work != nullptr, "DeviceGraph: work is not given, expected a function");
  work_ = internal::backend_of(device).record(work);
}

void DeviceGraph::replay() const {
  internal::check(defined(), "DeviceGraph: replay() is called on a graph without work");
  work_->replay();
}

}  // namespace headway::inline v0

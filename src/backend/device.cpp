// Devices beside the CPU: finding and loading their library.
#include "headway/device.h"

#include <dlfcn.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <utility>

#include "backend/backend.h"
#include "backend/cuda_library.h"
#include "base/check.h"

namespace headway::inline v0 {
namespace internal {
namespace {

constexpr const char* kLibrary = "libheadway_cuda.so.0";

// libheadway_cuda, opened once; never closed, since memory of it may outlive everything.
class CudaLibrary {
 public:
  CudaLibrary() {
    void* handle = open();
    if (handle == nullptr) return;
    const auto entry = reinterpret_cast<CudaEntry>(dlsym(handle, kCudaEntryName));
    if (entry == nullptr) {
      problem_ = std::string(kLibrary) + " does not belong to this libheadway";
      return;
    }
    const CudaDevices devices = entry(kCudaInterface);
    problem_ = devices.problem;
    count_ = devices.count;
    backend_ = devices.backend;
  }

  int count() const { return count_; }
  const std::string& problem() const { return problem_; }
  DeviceBackend& backend(int index) const {
    check(problem_.empty(), "cuda: ", problem_);
    check(index >= 0 && index < count_, "cuda: there is no device ", index, ", expected 0 to ", count_ - 1);
    return *backend_(index);
  }

 private:
  // HEADWAY_CUDA_LIBRARY, the file beside libheadway.so, or wherever the system looks.
  void* open() {
    const char* named = std::getenv("HEADWAY_CUDA_LIBRARY");
    if (named != nullptr && *named != '\0') return open_file(named);
    Dl_info own;
    if (dladdr(reinterpret_cast<const void*>(&device_backend), &own) != 0 && own.dli_fname != nullptr) {
      const std::filesystem::path beside = std::filesystem::path(own.dli_fname).parent_path() / kLibrary;
      std::error_code ignored;
      if (std::filesystem::exists(beside, ignored)) return open_file(beside.c_str());
    }
    return open_file(kLibrary);
  }

  void* open_file(const char* file) {
    void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      const char* why = dlerror();
      problem_ = std::string("the CUDA backend cannot be loaded: ") + (why != nullptr ? why : file);
    }
    return handle;
  }

  std::string problem_;
  int count_ = 0;
  DeviceBackend* (*backend_)(int index) = nullptr;
};

const CudaLibrary& cuda_library() {
  static const auto* library = new CudaLibrary;  // tensors of static duration may need it to the end
  return *library;
}

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

// The CPU's work is a function that is called again.
class CalledWork final : public RecordedWork {
 public:
  explicit CalledWork(std::function<void()> work) : work_(std::move(work)) {}
  void replay() override { work_(); }

 private:
  std::function<void()> work_;
};

}  // namespace

DeviceBackend& device_backend(Device device) {
  check(!device.is_cpu(), "device: the CPU has no backend of its own");
  return cuda_library().backend(device.index);
}

}  // namespace internal

Device Device::cuda(int index) {
  const Device device{.kind = Kind::cuda, .index = index};
  internal::device_backend(device);
  return device;
}

Device Device::parse(const std::string& name) {
  if (name == "cpu") return cpu();
  const std::optional<int> index = internal::cuda_index(name);
  internal::check(index.has_value(), "device: \"", name, "\" is not known, expected cpu, cuda or cuda:N");
  return cuda(*index);
}

bool Device::is_name(const std::string& name) { return name == "cpu" || internal::cuda_index(name).has_value(); }

std::string Device::name() const {
  if (is_cpu()) return "cpu";
  return index == 0 ? "cuda" : "cuda:" + std::to_string(index);
}

int cuda_device_count() { return internal::cuda_library().count(); }

std::string describe_cuda() {
  const internal::CudaLibrary& library = internal::cuda_library();
  if (!library.problem().empty()) return "not available: " + library.problem();
  std::string text;
  for (int index = 0; index < library.count(); ++index) {
    text += (index == 0 ? "" : "; ") + library.backend(index).description();
  }
  return text;
}

void synchronize(Device device) {
  if (!device.is_cpu()) internal::device_backend(device).synchronize();
}

CudaStreamGuard::CudaStreamGuard(Device device, void* stream) : device_(device) {
  internal::check(!device.is_cpu(), "CudaStreamGuard: the device is cpu, expected a GPU");
  internal::DeviceBackend& backend = internal::device_backend(device);
  previous_ = backend.stream();
  backend.set_stream(stream);
}

CudaStreamGuard::~CudaStreamGuard() { internal::device_backend(device_).set_stream(previous_); }

DeviceGraph::DeviceGraph(Device device, std::function<void()> work) {
  internal::check(work != nullptr, "DeviceGraph: work is not given, expected a function");
  if (device.is_cpu()) {
    work_ = std::make_shared<internal::CalledWork>(std::move(work));
  } else {
    work_ = internal::device_backend(device).record(work);
  }
}

void DeviceGraph::replay() const {
  internal::check(defined(), "DeviceGraph: replay() is called on a graph without work");
  work_->replay();
}

}  // namespace headway::inline v0

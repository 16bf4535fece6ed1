// Finding and opening libheadway_cuda.
#include "backend/cuda_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace headway::inline v0::internal {
namespace {

constexpr const char* kLibrary = "libheadway_cuda.so.0";

// An empty list with its reason, which lives as long as the process.
DeviceList without_devices(std::string problem) {
  static std::string kept;
  kept = std::move(problem);
  return {.problem = kept.c_str()};
}

// HEADWAY_CUDA_LIBRARY, the file beside libheadway.so or the program that contains it, or the system's search path.
std::string library_file() {
  const char* named = std::getenv("HEADWAY_CUDA_LIBRARY");
  if (named != nullptr && *named != '\0') return named;
  Dl_info own;
  if (dladdr(reinterpret_cast<const void*>(&cuda_devices), &own) != 0 && own.dli_fname != nullptr) {
    const std::filesystem::path beside = std::filesystem::path(own.dli_fname).parent_path() / kLibrary;
    std::error_code ignored;
    if (std::filesystem::exists(beside, ignored)) return beside.string();
  }
  return kLibrary;
}

}  // namespace

// The library is never closed, since its memory may outlive all static objects.
DeviceList cuda_devices() {
  const std::string file = library_file();
  void* library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return without_devices(std::string("the CUDA backend cannot be loaded: ") + (why != nullptr ? why : file.c_str()));
  }
  const auto interface = reinterpret_cast<CudaInterface>(dlsym(library, kCudaInterfaceName));
  const auto fill = reinterpret_cast<CudaDevices>(dlsym(library, kCudaDevicesName));
  if (interface == nullptr || fill == nullptr) {
    return without_devices(file + " is not a CUDA backend of this version of Headway");
  }
  if (std::string_view(interface()) != kInterfaceHash) {
    return without_devices(file + " is of another build than this Headway: its interface is " + interface() +
                           ", expected " + kInterfaceHash);
  }
  DeviceList devices;
  fill(&devices);
  return devices;
}

}  // namespace headway::inline v0::internal

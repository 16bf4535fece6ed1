// Where a tensor's memory lives, and who computes with it.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "headway/export.h"

namespace headway {
inline namespace v0 {

struct HEADWAY_API Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cpu;
  int index = 0;

  static constexpr Device cpu() { return {}; }
  // A GPU. Throws where there is none, or where libheadway_cuda.so is not beside libheadway.so.
  static Device cuda(int index = 0);
  // "cpu", "cuda" or "cuda:1".
  static Device parse(const std::string& name);
  // Whether it is such a name; the GPU need not be there.
  static bool is_name(const std::string& name);

  constexpr bool is_cpu() const { return kind == Kind::cpu; }
  std::string name() const;
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

// How many GPUs there are; 0 where CUDA cannot be used. Never throws.
HEADWAY_API int cuda_device_count();
// What is there, or why it cannot be used, in words.
HEADWAY_API std::string describe_cuda();

// Waits for all that this thread gave to the device. Copies to the CPU wait by themselves.
HEADWAY_API void synchronize(Device device);

// While it lives, this thread's work on the device goes to a cudaStream_t of the caller's.
class HEADWAY_API CudaStreamGuard {
 public:
  CudaStreamGuard(Device device, void* stream);
  ~CudaStreamGuard();
  CudaStreamGuard(const CudaStreamGuard&) = delete;
  CudaStreamGuard& operator=(const CudaStreamGuard&) = delete;

 private:
  Device device_;
  void* previous_;
};

namespace internal {
class RecordedWork;
}

// Work that is recorded once and then done as often as wanted, on the same tensors: on a GPU a CUDA graph, which costs
// the host one call instead of one for each kernel. A shared handle.
class HEADWAY_API DeviceGraph {
 public:
  DeviceGraph() = default;  // no work
  // Calls work() to record what it gives to the device; none of it is done before replay(). Results have to go into
  // tensors that were there before, and are read by whoever calls replay(): no tensor made by work() may outlive it,
  // and it may neither copy from or to the CPU nor wait. What it does once, as choosing a kernel, is best done before
  // by a call of work() itself. On the CPU, replay() calls work() again.
  DeviceGraph(Device device, const std::function<void()>& work);

  bool defined() const { return work_ != nullptr; }
  // Gives the work to the device once more, after all that this thread gave to it before.
  void replay() const;

 private:
  std::shared_ptr<internal::RecordedWork> work_;
};

}  // namespace v0
}  // namespace headway

// The device that holds a tensor's memory and computes with it.
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
  // Whether `name` is such a name; the GPU itself may be missing.
  static bool is_name(const std::string& name);

  constexpr bool is_cpu() const { return kind == Kind::cpu; }
  std::string name() const;
  friend constexpr bool operator==(const Device&, const Device&) = default;
};

// The number of GPUs; 0 where CUDA cannot be used. Never throws.
HEADWAY_API int cuda_device_count();
// A description of the GPUs, or of the reason why CUDA cannot be used.
HEADWAY_API std::string describe_cuda();

// Waits for all work that this thread has enqueued on the device. Copies to the CPU wait by themselves.
HEADWAY_API void synchronize(Device device);

// While a guard exists, this thread's work on the device is enqueued on the given cudaStream_t.
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

// Work that is recorded once and then replayed on the same tensors: on a GPU a CUDA graph, which costs the host one
// call instead of one for each kernel. A shared handle.
class HEADWAY_API DeviceGraph {
 public:
  DeviceGraph() = default;  // no work
  // Calls work() and records what it enqueues; nothing runs before replay(). work() writes its results into tensors
  // that exist before the call: no tensor made inside it may outlive it. It may neither copy from or to the CPU nor
  // wait. Call work() once before recording it, so that one-time steps such as the choice of a kernel are not recorded.
  // On the CPU, replay() calls work() again.
  DeviceGraph(Device device, const std::function<void()>& work);

  bool defined() const { return work_ != nullptr; }
  // Enqueues the work once more, after everything that this thread has enqueued before.
  void replay() const;

 private:
  std::shared_ptr<internal::RecordedWork> work_;
};

}  // namespace v0
}  // namespace headway

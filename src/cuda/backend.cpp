// The GPUs' memory and streams, and the list of them that the library gives.
#include "cuda/backend.h"

#include <memory>
#include <string>
#include <vector>

#include "backend/cuda_library.h"
#include "cuda/memory.h"
#include "cuda/recording.h"

namespace headway::inline v0::internal::cuda {

std::string CudaBackend::description() {
  const OnGpu here = on_gpu();
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index_), "cudaGetDeviceProperties");
  constexpr std::size_t kGibibyte = std::size_t{1} << 30;
  return std::string(properties.name) + ", " + std::to_string(properties.totalGlobalMem / kGibibyte) +
         " GiB, compute capability " + std::to_string(properties.major) + "." + std::to_string(properties.minor);
}

void CudaBackend::synchronize() {
  const OnGpu here = on_gpu();
  cuda::synchronize();
}

void CudaBackend::set_stream(void* stream) {
  const OnGpu here = on_gpu();
  cuda::set_stream(stream);
}

void* CudaBackend::stream() {
  const OnGpu here = on_gpu();
  return cuda::stream();
}

std::unique_ptr<RecordedWork> CudaBackend::record(const std::function<void()>& work) {
  const OnGpu here = on_gpu();
  return cuda::record(work);
}

MemoryBlock CudaBackend::allocate(std::size_t bytes) {
  const OnGpu here = on_gpu();
  return {.data = cuda::allocate(bytes), .bytes = bytes};
}

MemoryBlock CudaBackend::allocate_zeroed(std::size_t bytes) {
  const OnGpu here = on_gpu();
  const MemoryBlock block = {.data = cuda::allocate(bytes), .bytes = bytes};
  set_zero(block.data, bytes);
  return block;
}

void CudaBackend::release(const MemoryBlock& block) noexcept {
  int previous = 0;
  if (cudaGetDevice(&previous) != cudaSuccess || cudaSetDevice(index_) != cudaSuccess) return;
  cuda::release(block.data);
  cudaSetDevice(previous);
}

void CudaBackend::copy_to_device(void* target, const void* source, std::size_t bytes) {
  const OnGpu here = on_gpu();
  cuda::copy_to_device(target, source, bytes);
}

void CudaBackend::copy_to_host(void* target, const void* source, std::size_t bytes) {
  const OnGpu here = on_gpu();
  cuda::copy_to_host(target, source, bytes);
}

void CudaBackend::fill(const StridedTarget& target, const Shape& shape, double value) {
  const Tensor one = Tensor::full({}, value, target.dtype).to({.kind = Device::Kind::cuda, .index = index_});
  strided_copy(target, {one.raw_data(), Shape::filled(shape.rank(), 0), target.dtype}, shape);
}

namespace {

// One backend for each GPU, for as long as the process lives.
struct Gpus {
  std::string problem;  // empty where there are any
  std::vector<std::unique_ptr<CudaBackend>> backends;

  Gpus() {
    int count = 0;
    if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess || count == 0) {
      problem =
          std::string("no GPU can be used: ") + cudaGetErrorString(error == cudaSuccess ? cudaErrorNoDevice : error);
      return;
    }
    for (int index = 0; index < count; ++index) backends.push_back(std::make_unique<CudaBackend>(index));
  }
};

const Gpus& gpus() {
  static const auto* all = new Gpus;
  return *all;
}

Backend* backend_at(int index) { return gpus().backends[static_cast<std::size_t>(index)].get(); }

}  // namespace
}  // namespace headway::inline v0::internal::cuda

extern "C" HEADWAY_API const char* headway_cuda_interface() { return headway::internal::kInterfaceHash; }

extern "C" HEADWAY_API void headway_cuda_devices(headway::internal::DeviceList* devices) {
  const headway::internal::cuda::Gpus& gpus = headway::internal::cuda::gpus();
  *devices = {.problem = gpus.problem.c_str(),
              .count = static_cast<int>(gpus.backends.size()),
              .backend = headway::internal::cuda::backend_at};
}

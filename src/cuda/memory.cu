#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <utility>

#include "cuda/block_cache.h"
#include "cuda/memory.h"
#include "cuda/recording.h"

namespace headway::inline v0::internal::cuda {
namespace {

// Pinned memory through which small copies go, so that the host need not wait for the device: a ring of slots, each
// used again once its last copy is done.
class StagingRing {
 public:
  static constexpr std::size_t kSlotBytes = 64 << 10;

  // Copies at most kSlotBytes.
  void copy(void* target, const void* source, std::size_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    if (memory_ == nullptr) make();
    std::byte* slot = memory_ + static_cast<std::size_t>(next_) * kSlotBytes;
    check_cuda(cudaEventSynchronize(done_[next_]), "cudaEventSynchronize");
    std::memcpy(slot, source, bytes);
    check_cuda(cudaMemcpyAsync(target, slot, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    check_cuda(cudaEventRecord(done_[next_], stream), "cudaEventRecord");
    next_ = (next_ + 1) % kSlots;
  }

 private:
  static constexpr int kSlots = 64;

  void make() {
    for (cudaEvent_t& done : done_) {
      if (done == nullptr) check_cuda(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "cudaEventCreate");
    }
    check_cuda(cudaMallocHost(reinterpret_cast<void**>(&memory_), kSlots * kSlotBytes), "cudaMallocHost");
  }

  std::mutex mutex_;
  std::byte* memory_ = nullptr;    // (kSlots, kSlotBytes)
  cudaEvent_t done_[kSlots] = {};  // not yet recorded ones count as done
  int next_ = 0;
};

// What is kept for a GPU as long as the process lives.
struct Gpu {
  std::once_flag once;
  cudaStream_t own_stream = nullptr;
  DeviceProperties properties;
  StagingRing staging;
  std::mutex join_mutex;
  cudaEvent_t join = nullptr;  // lets one stream wait for another
};

// A property of a GPU that is one number.
int attribute(cudaDeviceAttr name, int device) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, name, device), "cudaDeviceGetAttribute");
  return value;
}

// Fills what is kept for a GPU.
void set_up(Gpu& gpu, int device) {
  gpu.properties = {.multiprocessors = attribute(cudaDevAttrMultiProcessorCount, device),
                    .capability = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device) +
                                  attribute(cudaDevAttrComputeCapabilityMinor, device),
                    .shared_memory_per_block = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device)};
  // Freed memory stays in the pool: allocating it again needs no call of the driver.
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  std::uint64_t threshold = std::numeric_limits<std::uint64_t>::max();
  check_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "cudaMemPoolSetAttribute");
  check_cuda(cudaEventCreateWithFlags(&gpu.join, cudaEventDisableTiming), "cudaEventCreate");
  check_cuda(cudaStreamCreateWithFlags(&gpu.own_stream, cudaStreamNonBlocking), "cudaStreamCreate");
}

// The calling thread's GPU.
int current_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "cudaGetDevice");
  check(device < kMostDevices, "cuda: device is ", device, ", expected less than ", kMostDevices);
  return device;
}

// What is kept for a GPU, set up on first use.
Gpu& gpu_of(int device) {
  static Gpu* const gpus = new Gpu[kMostDevices];  // never deleted: tensors may outlive static objects
  Gpu& gpu = gpus[device];
  std::call_once(gpu.once, [&] { set_up(gpu, device); });
  return gpu;
}

thread_local cudaStream_t chosen_streams[kMostDevices] = {};  // null: the GPU's own

// The thread's last change of streams: where it came from, and whether anything went to the new stream since.
struct LastSwitch {
  cudaStream_t from = nullptr;
  bool used = true;
};
thread_local LastSwitch last_switches[kMostDevices];

// The stream of this thread's work on a GPU.
cudaStream_t stream_of(int device) {
  const cudaStream_t chosen = chosen_streams[device];
  last_switches[device].used = true;
  return chosen != nullptr ? chosen : gpu_of(device).own_stream;
}

// What the pool keeps unused goes back to the driver, once all work is done that may still use it.
void trim_pool(int device) {
  cudaMemPool_t pool = nullptr;
  check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "cudaDeviceGetDefaultMemPool");
  check_cuda(cudaMemPoolTrimTo(pool, 0), "cudaMemPoolTrimTo");
}

// Whether the stream's work is being recorded into a graph, not done.
bool is_recording(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

cudaStream_t current_stream() { return stream_of(current_device()); }

const DeviceProperties& device_properties() { return gpu_of(current_device()).properties; }

void* allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  if (void* recorded = allocate_while_recording(bytes)) return recorded;
  const int device = current_device();
  gpu_of(device);  // sets the pool up, also where the stream is the caller's
  const cudaStream_t stream = stream_of(device);
  // What a graph is recorded with belongs to the graph.
  BlockCache* const cache = is_recording(stream) ? nullptr : BlockCache::of_thread(device);
  if (void* kept = cache ? cache->take(bytes) : nullptr) return kept;
  const std::size_t capacity = BlockCache::capacity_of(bytes);
  void* memory = nullptr;
  cudaError_t error = cudaMallocAsync(&memory, capacity, stream);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    if (cache) cache->shrink(0);
    trim_pool(device);
    error = cudaMallocAsync(&memory, capacity, stream);
  }
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    std::size_t free_bytes = 0, total_bytes = 0;
    check_cuda(cudaMemGetInfo(&free_bytes, &total_bytes), "cudaMemGetInfo");
    fail("cuda: out of memory: ", bytes, " bytes were asked for, ", free_bytes, " of ", total_bytes, " are free");
  }
  check_cuda(error, "cudaMallocAsync");
  if (cache) cache->note_fresh(memory, capacity);
  return memory;
}

void release(void* memory) noexcept {
  if (memory == nullptr || release_while_recording(memory)) return;
  try {
    BlockCache* const cache = BlockCache::of_thread(current_device());
    if (!cache || !cache->keep(memory)) free_block(memory);
  } catch (...) {
  }
}

void free_block(void* memory) noexcept {
  try {
    BlockCache::forget(memory);
    // Where the process is ending CUDA may be gone already, and all memory with it.
    if (cudaFreeAsync(memory, current_stream()) != cudaSuccess) cudaGetLastError();
  } catch (...) {
  }
}

void set_zero(void* memory, std::size_t bytes) {
  if (bytes == 0) return;
  check_cuda(cudaMemsetAsync(memory, 0, bytes, current_stream()), "cudaMemsetAsync");
}

void copy_to_device(void* target, const void* source, std::size_t bytes) {
  constexpr std::size_t kMostStaged = 16 * StagingRing::kSlotBytes;
  if (bytes == 0) return;
  refuse_while_recording("memory of the host is copied");
  const int device = current_device();
  const cudaStream_t stream = stream_of(device);
  if (bytes > kMostStaged) {
    check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
    check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    return;
  }
  for (std::size_t begin = 0; begin < bytes; begin += StagingRing::kSlotBytes) {
    gpu_of(device).staging.copy(static_cast<std::byte*>(target) + begin, static_cast<const std::byte*>(source) + begin,
                                std::min(StagingRing::kSlotBytes, bytes - begin), stream);
  }
}

void copy_to_host(void* target, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  refuse_while_recording("memory is copied to the host");
  const cudaStream_t stream = current_stream();
  check_cuda(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

void synchronize() {
  refuse_while_recording("the host waits");
  check_cuda(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
}

void set_stream(void* stream) {
  refuse_while_recording("another stream is chosen");
  const int device = current_device();
  Gpu& gpu = gpu_of(device);
  const auto handle = [&](cudaStream_t chosen) { return chosen != nullptr ? chosen : gpu.own_stream; };
  const auto chosen = static_cast<cudaStream_t>(stream);
  const cudaStream_t before = handle(chosen_streams[device]), after = handle(chosen);
  LastSwitch& last = last_switches[device];
  const bool is_way_back = !last.used && last.from == after;  // nothing happened that `after` had to wait for
  if (before != after && !is_way_back) {
    const std::lock_guard lock(gpu.join_mutex);
    check_cuda(cudaEventRecord(gpu.join, before), "cudaEventRecord");
    check_cuda(cudaStreamWaitEvent(after, gpu.join), "cudaStreamWaitEvent");
  }
  last = {.from = before, .used = is_way_back || before == after ? last.used : false};
  chosen_streams[device] = chosen;
}

cudaStream_t redirect_stream(cudaStream_t stream) { return std::exchange(chosen_streams[current_device()], stream); }

void* stream() { return chosen_streams[current_device()]; }

DeviceBuffer upload_bytes(const void* source, std::size_t bytes) {
  DeviceBuffer buffer(bytes);
  copy_to_device(buffer.as<void>(), source, bytes);
  return buffer;
}

}  // namespace headway::inline v0::internal::cuda

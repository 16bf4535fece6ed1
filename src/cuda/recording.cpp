#include "cuda/recording.h"

#include <algorithm>
#include <utility>

#include "cuda/launch.h"
#include "cuda/memory.h"

namespace headway::inline v0::internal::cuda {
namespace {

thread_local GraphMemory* recording = nullptr;

// A graph that is ready to run, and its memory.
class CudaGraph final : public RecordedWork {
 public:
  CudaGraph(cudaGraph_t graph, std::unique_ptr<GraphMemory> memory) : memory_(std::move(memory)) {
    check_cuda(cudaGetDevice(&device_), "cudaGetDevice");
    const cudaError_t error = cudaGraphInstantiate(&ready_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "cudaGraphInstantiate");
  }
  ~CudaGraph() override {
    int previous = 0;
    if (cudaGetDevice(&previous) != cudaSuccess || cudaSetDevice(device_) != cudaSuccess) return;
    if (cudaGraphExecDestroy(ready_) != cudaSuccess) cudaGetLastError();
    memory_.reset();
    cudaSetDevice(previous);
  }

  void replay() override {
    refuse_while_recording("a graph is replayed");
    int previous = 0;
    check_cuda(cudaGetDevice(&previous), "cudaGetDevice");
    if (previous != device_) check_cuda(cudaSetDevice(device_), "cudaSetDevice");
    const cudaError_t error = cudaGraphLaunch(ready_, current_stream());
    if (previous != device_) cudaSetDevice(previous);
    check_cuda(error, "cudaGraphLaunch");
  }

 private:
  int device_ = 0;
  std::unique_ptr<GraphMemory> memory_;
  cudaGraphExec_t ready_ = nullptr;
};

// While it exists, this thread's work is recorded and not run.
class Capture {
 public:
  explicit Capture(GraphMemory& memory) {
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    // Relaxed: allocating the graph's memory is not part of the graph.
    const cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeRelaxed);
    if (error != cudaSuccess) cudaStreamDestroy(stream_);
    check_cuda(error, "cudaStreamBeginCapture");
    recording = &memory;
    previous_ = redirect_stream(stream_);
  }
  ~Capture() {
    if (is_open_) finish();
    cudaStreamDestroy(stream_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  // Ends the recording; null where the work cannot be recorded.
  cudaGraph_t finish() {
    is_open_ = false;
    recording = nullptr;
    redirect_stream(previous_);
    cudaGraph_t graph = nullptr;
    error_ = cudaStreamEndCapture(stream_, &graph);
    if (error_ != cudaSuccess) cudaGetLastError();
    return graph;
  }
  cudaError_t error() const { return error_; }

 private:
  cudaStream_t stream_ = nullptr;
  cudaStream_t previous_ = nullptr;
  cudaError_t error_ = cudaSuccess;
  bool is_open_ = true;
};

}  // namespace

void* GraphMemory::take(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256, kSlab = std::size_t{4} << 20;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  void* block = nullptr;
  std::size_t block_size = size;
  if (const auto found = free_.lower_bound(size); found != free_.end() && found->first <= 2 * size) {
    block_size = found->first;
    block = found->second;
    free_.erase(found);
  } else {
    if (left_ < size) {
      left_ = std::max(size, kSlab);
      void* slab = nullptr;
      check_cuda(cudaMallocAsync(&slab, left_, stream_), "cudaMallocAsync");
      slabs_.push_back(slab);
      next_ = static_cast<std::byte*>(slab);
    }
    block = next_;
    next_ += size;
    left_ -= size;
  }
  taken_.emplace(block, block_size);
  return block;
}

void GraphMemory::give_back(void* memory) {
  const auto found = taken_.find(memory);
  if (found == taken_.end()) {
    others_.push_back(memory);
    return;
  }
  free_.emplace(found->second, memory);
  taken_.erase(found);
}

void GraphMemory::release_others() {
  for (void* memory : std::exchange(others_, {})) release(memory);
}

GraphMemory::~GraphMemory() {
  release_others();
  // A block that is still out has a user: its slab stays.
  if (is_in_use()) return;
  for (void* slab : slabs_) release(slab);
}

void* allocate_while_recording(std::size_t bytes) { return recording ? recording->take(bytes) : nullptr; }

bool release_while_recording(void* memory) noexcept {
  if (recording == nullptr) return false;
  try {
    recording->give_back(memory);
  } catch (...) {  // no memory for a note about it: it stays with the graph
  }
  return true;
}

bool is_recording() { return recording != nullptr; }

void refuse_while_recording(const char* what) {
  check(recording == nullptr, "cuda: ", what, " while work is recorded, which cannot be part of a graph");
}

std::unique_ptr<RecordedWork> record(const std::function<void()>& work) {
  refuse_while_recording("a graph is recorded");
  auto memory = std::make_unique<GraphMemory>(current_stream());
  Capture capture(*memory);
  work();
  cudaGraph_t graph = capture.finish();
  check_cuda(capture.error(), "cudaStreamEndCapture");
  memory->release_others();
  if (memory->is_in_use()) {
    cudaGraphDestroy(graph);
    fail("cuda: a tensor that was made while work was recorded outlives it, expected results in tensors made before");
  }
  return std::make_unique<CudaGraph>(graph, std::move(memory));
}

}  // namespace headway::inline v0::internal::cuda

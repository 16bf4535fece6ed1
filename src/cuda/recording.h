// Work that is recorded as a CUDA graph. While a thread records, its work goes to a stream of its own that only notes
// it down, and its memory comes from the graph, which keeps it for its replays.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backend/backend.h"

namespace headway::inline v0::internal::cuda {

// The memory of one graph. Blocks that were given back while it was recorded are used again: what is recorded is done
// in its order.
class GraphMemory {
 public:
  // `stream` is where its memory is taken from: that of the thread before it recorded.
  explicit GraphMemory(cudaStream_t stream) : stream_(stream) {}
  ~GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  GraphMemory& operator=(const GraphMemory&) = delete;

  void* take(std::size_t bytes);
  // Memory that is not of this graph waits until it has been recorded.
  void give_back(void* memory);
  // Releases what waits for it. Not while this thread records.
  void release_others();
  // True while blocks are out.
  bool is_in_use() const { return !taken_.empty(); }

 private:
  cudaStream_t stream_;
  std::vector<void*> slabs_;
  std::byte* next_ = nullptr;  // what is left of the last slab
  std::size_t left_ = 0;
  std::multimap<std::size_t, void*> free_;  // by size
  std::map<void*, std::size_t> taken_;
  std::vector<void*> others_;
};

// Memory of the graph that this thread records; null: it records none.
void* allocate_while_recording(std::size_t bytes);
// Takes the memory where this thread records; false: it does not.
bool release_while_recording(void* memory) noexcept;

// True while this thread records.
bool is_recording();

// Throws while this thread records: `what` cannot be part of a graph.
void refuse_while_recording(const char* what);

// Calls work() and keeps what it gives to the GPU.
std::unique_ptr<RecordedWork> record(const std::function<void()>& work);

}  // namespace headway::inline v0::internal::cuda

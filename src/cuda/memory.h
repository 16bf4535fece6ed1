// Memory and streams of the calling thread's current GPU, beside what launch.h declares.
//
// The work of one thread is done in the order in which it was given, also across a change of its stream: the new stream
// waits for the old one. Memory is therefore taken and given back on whatever stream the thread has at the time.
// Threads that share tensors while they have streams of their own must order these streams themselves.
#pragma once

#include <cstddef>

#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {

void set_zero(void* memory, std::size_t bytes);

// `source` is the host's and may be changed once the call returns.
void copy_to_device(void* target, const void* source, std::size_t bytes);

// Waits until the bytes have come.
void copy_to_host(void* target, const void* source, std::size_t bytes);

// Waits for all that this thread gave to the GPU.
void synchronize();

// Where this thread's work goes from now on: a cudaStream_t, which must live until another is set. Null: the stream of
// Headway's own, which all threads share.
void set_stream(void* stream);

// Sets the stream without a word to the GPU: nothing waits. Returns what was set before.
cudaStream_t redirect_stream(cudaStream_t stream);

// What was set; null for Headway's own.
void* stream();

}  // namespace headway::inline v0::internal::cuda

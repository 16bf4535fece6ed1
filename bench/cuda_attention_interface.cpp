// Headway's attention on a GPU as a C interface, so that cuda_attention_bench.py can time it beside PyTorch's on the
// same memory and the same stream. On failure, functions return null or a negative number; cuda_attention_error() has
// the reason.
#include <cstdint>
#include <memory>
#include <vector>

#include "guarded.h"
#include "headway/attention.h"
#include "headway/device.h"
#include "headway/error.h"

#define CUDA_ATTENTION_API extern "C" __attribute__((visibility("default")))

using headway::Causal;
using headway::CudaStreamGuard;
using headway::CumulativeLengths;
using headway::Device;
using headway::DType;
using headway::PerEntry;
using headway::Shape;
using headway::Tensor;

// A tensor of PyTorch's on the GPU; null data: none.
struct TensorView {
  void* data;
  std::int64_t shape[4];
  std::int64_t strides[4];  // in elements
  std::int32_t rank;
  std::int32_t dtype;  // as headway::DType counts
};

// Numbers on the host; null: none.
struct Numbers {
  const std::int64_t* values;
  std::int64_t count;
};

struct CudaAttentionCall {
  TensorView query, key, value, d_output, bias;
  Numbers key_lengths;
  Numbers cu_lengths;    // of queries and of keys: a packed batch
  void* stream;          // a cudaStream_t, not null
  std::int64_t causal;   // 1: query i sees keys 0 .. i
  std::int64_t weights;  // 1: one matrix per head
  double dropout;
  std::int64_t deterministic;  // 0: the query's gradient may be summed in any order
};

// One problem with its last results.
struct CudaAttention {
  headway::AttentionBackward problem;
  headway::AttentionGradients gradients = {};
  void* stream = nullptr;
};

enum CudaAttentionPart { kOutput, kLogsumexp, kWeights, kQueryGradient, kKeyGradient, kValueGradient };

namespace {

Tensor wrap(const TensorView& view) {
  if (view.data == nullptr) return {};
  Shape shape, strides;
  for (int dim = 0; dim < view.rank; ++dim) {
    shape.push_back(view.shape[dim]);
    strides.push_back(view.strides[dim]);
  }
  return Tensor::wrap(view.data, shape, strides, static_cast<DType>(view.dtype), {}, Device::cuda());
}

// PerEntry or CumulativeLengths.
template <typename Lengths>
Lengths lengths_of(const Numbers& numbers) {
  if (numbers.values == nullptr) return {};
  return Lengths(std::vector<std::int64_t>(numbers.values, numbers.values + numbers.count));
}

Tensor part_of(const CudaAttention& attention, int part) {
  const headway::AttentionResult& forward = attention.problem.forward;
  const headway::AttentionGradients& gradients = attention.gradients;
  const Tensor parts[] = {forward.output,  forward.logsumexp, forward.weights,
                          gradients.query, gradients.key,     gradients.value};
  if (part < kOutput || part > kValueGradient) throw headway::Error("cuda_attention_read: no such part");
  return parts[part];
}

}  // namespace

CUDA_ATTENTION_API CudaAttention* cuda_attention_create(const CudaAttentionCall* call) {
  auto attention = std::make_unique<CudaAttention>();
  const int failed = guarded([&] {
    headway::AttentionBackward& problem = attention->problem;
    problem.query = wrap(call->query);
    problem.key = wrap(call->key);
    problem.value = wrap(call->value);
    problem.d_output = wrap(call->d_output);
    problem.options.bias = wrap(call->bias);
    problem.options.causal = call->causal != 0 ? Causal::top_left : Causal::none;
    problem.options.key_lengths = lengths_of<PerEntry>(call->key_lengths);
    problem.options.cu_query_lengths = problem.options.cu_key_lengths = lengths_of<CumulativeLengths>(call->cu_lengths);
    problem.options.weights = call->weights != 0 ? headway::Weights::per_head : headway::Weights::none;
    problem.options.dropout = call->dropout;
    problem.options.seed = 1;
    problem.options.deterministic = call->deterministic != 0;
    attention->stream = call->stream;
  });
  return failed != 0 ? nullptr : attention.release();
}

CUDA_ATTENTION_API int cuda_attention_forward(CudaAttention* attention) {
  return guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), attention->stream);
    headway::AttentionBackward& p = attention->problem;
    p.forward = headway::attention(p.query, p.key, p.value, p.options);
  });
}

// The gradients of the last forward.
CUDA_ATTENTION_API int cuda_attention_backward(CudaAttention* attention) {
  return guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), attention->stream);
    attention->gradients = headway::attention_backward(attention->problem);
  });
}

// Copies a result of the last call to a tensor of the same shape.
CUDA_ATTENTION_API int cuda_attention_read(const CudaAttention* attention, int part, const TensorView* target) {
  return guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), attention->stream);
    const Tensor source = part_of(*attention, part);
    if (!source.defined()) throw headway::Error("cuda_attention_read: there is no such result");
    wrap(*target).copy_from(source);
  });
}

CUDA_ATTENTION_API void cuda_attention_destroy(CudaAttention* attention) {
  guarded([&] {
    const CudaStreamGuard guard(Device::cuda(), attention->stream);
    delete attention;
  });
}

// The error of this thread's last failed call.
CUDA_ATTENTION_API const char* cuda_attention_error() { return last_error.c_str(); }

// Steps of optimizers, each over all parameters at once.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/thread_pool.h"
#include "cpu/backend.h"
#include "cpu/isa.h"

namespace headway::inline v0::internal::cpu {
namespace {

constexpr std::int64_t kParameterChunk = 1 << 14;  // elements of a task

// `count` elements of a parameter from `begin` on.
struct Chunk {
  const ParameterSpan* parameter;
  std::int64_t begin;
  std::int64_t count;

  // Where the chunk begins in an array of the parameter's dtype.
  void* value_at(const void* data) const { return at(data, item_size(parameter->dtype)); }
  // Where it begins in an array of the optimizer's state; null for none.
  void* state_at(const void* data) const {
    return data ? at(data, parameter->dtype == DType::float64 ? sizeof(double) : sizeof(float)) : nullptr;
  }

 private:
  void* at(const void* data, std::size_t item) const {
    return static_cast<std::byte*>(const_cast<void*>(data)) + static_cast<std::size_t>(begin) * item;
  }
};

std::vector<Chunk> cut(std::span<const ParameterSpan> parameters) {
  std::vector<Chunk> chunks;
  for (const ParameterSpan& parameter : parameters) {
    for (std::int64_t begin = 0; begin < parameter.count; begin += kParameterChunk) {
      chunks.push_back({&parameter, begin, std::min(kParameterChunk, parameter.count - begin)});
    }
  }
  return chunks;
}

// Runs body(chunk, its number) for all chunks of all parameters.
template <typename Body>
void for_each_chunk(const std::vector<Chunk>& chunks, const Body& body) {
  parallel_for(static_cast<std::int64_t>(chunks.size()), [&](std::int64_t t, int) {
    const auto number = static_cast<std::size_t>(t);
    body(chunks[number], number);
  });
}

}  // namespace

// value -= learning_rate * (momentum of) (gradient + weight_decay * value), as torch.optim.SGD.
void CpuBackend::sgd(std::span<const ParameterSpan> parameters, const SgdStep& options) {
  for_each_chunk(cut(parameters), [&](const Chunk& chunk, std::size_t) {
    const ParameterSpan& parameter = *chunk.parameter;
    SgdTask task;
    task.dtype = parameter.dtype;
    task.count = chunk.count;
    task.value = chunk.value_at(parameter.value);
    task.master = static_cast<float*>(chunk.state_at(parameter.master));
    task.gradient = chunk.value_at(parameter.gradient);
    task.momentum = options.momentum == 0 ? nullptr : chunk.state_at(parameter.first);
    task.gradient_factor = options.gradient_factor;
    task.learning_rate = options.learning_rate;
    task.momentum_factor = options.momentum;
    task.dampening = options.dampening;
    task.weight_decay = options.weight_decay;
    task.nesterov = options.nesterov;
    task.first_step = parameter.step == 1;
    optimizer_kernels().sgd(task);
  });
}

// A step of torch.optim.Adam or AdamW; with AMSGrad for the spans that have `largest`.
void CpuBackend::adam(std::span<const ParameterSpan> parameters, const AdamStep& options) {
  for_each_chunk(cut(parameters), [&](const Chunk& chunk, std::size_t) {
    const ParameterSpan& parameter = *chunk.parameter;
    const auto step = static_cast<double>(parameter.step);
    AdamTask task;
    task.dtype = parameter.dtype;
    task.count = chunk.count;
    task.value = chunk.value_at(parameter.value);
    task.master = static_cast<float*>(chunk.state_at(parameter.master));
    task.gradient = chunk.value_at(parameter.gradient);
    task.first = chunk.state_at(parameter.first);
    task.second = chunk.state_at(parameter.second);
    task.largest = chunk.state_at(parameter.largest);
    task.gradient_factor = options.gradient_factor;
    task.beta1 = options.beta1;
    task.beta2 = options.beta2;
    task.epsilon = options.epsilon;
    task.step_size = options.learning_rate / (1 - std::pow(options.beta1, step));
    task.inverse_root = 1 / std::sqrt(1 - std::pow(options.beta2, step));
    if (options.decay == WeightDecay::added) {
      task.added_decay = options.weight_decay;
    } else {
      task.kept_share = 1 - options.learning_rate * options.weight_decay;
    }
    optimizer_kernels().adam(task);
  });
}

// What is not finite shows that the gradient holds a NaN or an infinity, or for float64 a square past the range.
std::vector<double> CpuBackend::sum_of_squares(std::span<const ParameterSpan> parameters) {
  const std::vector<Chunk> chunks = cut(parameters);
  std::vector<double> parts(chunks.size());
  for_each_chunk(chunks, [&](const Chunk& chunk, std::size_t number) {
    const ParameterSpan& parameter = *chunk.parameter;
    parts[number] =
        optimizer_kernels().sum_of_squares({parameter.dtype, chunk.count, chunk.value_at(parameter.gradient)});
  });
  std::vector<double> sums(parameters.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    sums[static_cast<std::size_t>(chunks[i].parameter - parameters.data())] += parts[i];
  }
  return sums;
}

}  // namespace headway::inline v0::internal::cpu

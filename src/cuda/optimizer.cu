// Steps of optimizers: all parameters in one launch.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"
#include "cuda/memory.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kWarp = 32;
constexpr int kThreads = 256;
constexpr std::int64_t kChunk = 4096;  // elements that a block takes at a time

// A parameter as the kernels see it.
struct Entry {
  ParameterSpan span;
  std::int64_t first_chunk = 0;  // chunks are numbered through all parameters
  // adam: what follows from how many steps the parameter has had
  double step_size = 0;     // learning rate / (1 - beta1^step)
  double inverse_root = 0;  // 1 / sqrt(1 - beta2^step)
};

// The parameters in memory of the GPU, cut into chunks.
class Table {
 public:
  // fill(entry): sets what an optimizer adds to an entry.
  template <typename Fill>
  Table(std::span<const ParameterSpan> parameters, const Fill& fill) : count_(static_cast<int>(parameters.size())) {
    std::vector<Entry> entries;  // (parameters)
    for (const ParameterSpan& span : parameters) {
      Entry& entry = entries.emplace_back();
      entry.span = span;
      entry.first_chunk = chunks_;
      fill(entry);
      chunks_ += (span.count + kChunk - 1) / kChunk;
    }
    memory_ = upload(std::span<const Entry>(entries));
  }

  const Entry* entries() const { return memory_.as<const Entry>(); }
  int count() const { return count_; }
  std::int64_t chunks() const { return chunks_; }

 private:
  DeviceBuffer memory_;  // (parameters) of Entry
  int count_;
  std::int64_t chunks_ = 0;
};

// The entry that a chunk belongs to: the last one that begins at it or before. Empty parameters begin where the next
// one does and so are skipped.
__device__ const Entry& entry_of(const Entry* entries, int count, std::int64_t chunk) {
  int low = 0, high = count;  // the entry is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (entries[middle].first_chunk <= chunk ? low : high) = middle;
  }
  return entries[low];
}

// Calls f.template operator()<T>() with the GPU's type of a floating dtype; all threads take the same branch.
template <typename Function>
__device__ void dispatch_on_device(DType dtype, const Function& f) {
  switch (dtype) {
    case DType::float32:
      return f.template operator()<float>();
    case DType::float64:
      return f.template operator()<double>();
    case DType::bfloat16:
      return f.template operator()<__nv_bfloat16>();
    case DType::float16:
      return f.template operator()<__half>();
    default:
      return;
  }
}

// Calls body(i) for the elements of a chunk that are this thread's.
template <typename Body>
__device__ void for_elements(const Entry& entry, std::int64_t chunk, const Body& body) {
  const std::int64_t begin = (chunk - entry.first_chunk) * kChunk;
  const std::int64_t end = ::min(begin + kChunk, entry.span.count);
#pragma unroll 4
  for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) body(i);
}

// ---- steps ----

// The weights that a step changes: values of type T, and the master that 16-bit ones may have.
template <typename T>
class Weights {
 public:
  using Real = Compute<T>;

  __device__ explicit Weights(const ParameterSpan& span) : value_(static_cast<T*>(span.value)), master_(span.master) {}

  // What the step starts from: the master, unless it no longer rounds to the value.
  __device__ Real get(std::int64_t i) const {
    const Real value = to_compute(value_[i]);
    if constexpr (kHasMaster) {
      if (master_ != nullptr) {
        const float master = master_[i];
        return to_compute(from_compute<T>(master)) == value ? master : value;
      }
    }
    return value;
  }
  __device__ void set(std::int64_t i, Real weight) const {
    value_[i] = from_compute<T>(weight);
    if constexpr (kHasMaster) {
      if (master_ != nullptr) master_[i] = weight;
    }
  }

 private:
  static constexpr bool kHasMaster = !std::is_same_v<T, Real>;

  T* __restrict__ value_;       // (count)
  float* __restrict__ master_;  // (count); null: none
};

template <typename T>
__device__ void sgd_chunk(const Entry& entry, std::int64_t chunk, const SgdStep& step) {
  using Real = Compute<T>;
  const Weights<T> weights(entry.span);
  const T* __restrict__ gradient = static_cast<const T*>(entry.span.gradient);
  Real* __restrict__ momentum = step.momentum == 0 ? nullptr : static_cast<Real*>(entry.span.first);
  const Real gradient_factor = step.gradient_factor, weight_decay = step.weight_decay, rate = step.learning_rate;
  const Real momentum_factor = step.momentum, fresh = 1 - step.dampening;
  const bool first_step = entry.span.step == 1, nesterov = step.nesterov;
  for_elements(entry, chunk, [&](std::int64_t i) {
    const Real v = weights.get(i);
    Real g = to_compute(gradient[i]) * gradient_factor;
    if (weight_decay != 0) g = fma(v, weight_decay, g);
    if (momentum != nullptr) {
      const Real m = first_step ? g : fma(momentum[i], momentum_factor, g * fresh);
      momentum[i] = m;
      g = nesterov ? fma(m, momentum_factor, g) : m;
    }
    weights.set(i, fma(-g, rate, v));
  });
}

template <typename T>
__device__ void adam_chunk(const Entry& entry, std::int64_t chunk, const AdamStep& step) {
  using Real = Compute<T>;
  const Weights<T> weights(entry.span);
  const T* __restrict__ gradient = static_cast<const T*>(entry.span.gradient);
  Real* __restrict__ first = static_cast<Real*>(entry.span.first);
  Real* __restrict__ second = static_cast<Real*>(entry.span.second);
  Real* __restrict__ largest = static_cast<Real*>(entry.span.largest);
  const bool decoupled = step.decay == WeightDecay::decoupled;
  const Real gradient_factor = step.gradient_factor, epsilon = step.epsilon;
  const Real fresh1 = 1 - step.beta1, beta2 = step.beta2, fresh2 = 1 - step.beta2;
  const Real step_size = entry.step_size, inverse_root = entry.inverse_root;
  const Real added_decay = decoupled ? 0 : step.weight_decay;
  const Real kept_share = decoupled ? 1 - step.learning_rate * step.weight_decay : 1;
  for_elements(entry, chunk, [&](std::int64_t i) {
    Real v = weights.get(i);
    Real g = to_compute(gradient[i]) * gradient_factor;
    if (added_decay != 0) g = fma(v, added_decay, g);
    v *= kept_share;
    const Real m = fma(fresh1, g - first[i], first[i]);
    first[i] = m;
    Real s = fma(second[i], beta2, fresh2 * g * g);
    second[i] = s;
    if (largest != nullptr) {
      const Real earlier = largest[i];
      s = s < earlier ? earlier : s;  // a NaN in s stays
      largest[i] = s;
    }
    const Real root = fma(::sqrt(s), inverse_root, epsilon);
    weights.set(i, v - step_size * m / root);
  });
}

__global__ void sgd_all(const Entry* entries, int count, std::int64_t chunks, SgdStep step) {
  for (std::int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const Entry entry = entry_of(entries, count, chunk);
    dispatch_on_device(entry.span.dtype, [&]<typename T>() { sgd_chunk<T>(entry, chunk, step); });
  }
}

__global__ void adam_all(const Entry* entries, int count, std::int64_t chunks, AdamStep step) {
  for (std::int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const Entry entry = entry_of(entries, count, chunk);
    dispatch_on_device(entry.span.dtype, [&]<typename T>() { adam_chunk<T>(entry, chunk, step); });
  }
}

// ---- sums of squares ----

// The sum of all threads' values, in the first thread; always in the same order.
__device__ double block_sum(double sum) {
  __shared__ double warps[kThreads / kWarp];  // (warps)
  for (int offset = kWarp / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, offset);
  __syncthreads();  // the sums of a call before have been read
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kThreads / kWarp; ++warp) sum += warps[warp];
  }
  return sum;
}

// parts (chunks): the sum of the squares of each chunk's gradient.
__global__ void square_chunks(const Entry* entries, int count, std::int64_t chunks, double* parts) {
  for (std::int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const Entry entry = entry_of(entries, count, chunk);
    double sum = 0;
    dispatch_on_device(entry.span.dtype, [&]<typename T>() {
      const T* gradient = static_cast<const T*>(entry.span.gradient);
      for_elements(entry, chunk, [&](std::int64_t i) {
        const double g = to_compute(gradient[i]);
        sum = fma(g, g, sum);
      });
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[chunk] = sum;
  }
}

// sums (count): the sum of each parameter's parts; one block for each.
__global__ void join_squares(const Entry* entries, int count, std::int64_t chunks, const double* parts, double* sums) {
  for (int parameter = blockIdx.x; parameter < count; parameter += gridDim.x) {
    const std::int64_t begin = entries[parameter].first_chunk;
    const std::int64_t end = parameter + 1 < count ? entries[parameter + 1].first_chunk : chunks;
    double sum = 0;
    for (std::int64_t i = begin + threadIdx.x; i < end; i += kThreads) sum += parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) sums[parameter] = sum;
  }
}

}  // namespace

void CudaBackend::sgd(std::span<const ParameterSpan> parameters, const SgdStep& step) {
  const OnGpu here = on_gpu();
  const Table table(parameters, [](Entry&) {});
  if (table.chunks() == 0) return;
  sgd_all<<<grid_for(table.chunks(), 1), kThreads, 0, current_stream()>>>(table.entries(), table.count(),
                                                                          table.chunks(), step);
  check_launch("sgd_all");
}

void CudaBackend::adam(std::span<const ParameterSpan> parameters, const AdamStep& step) {
  const OnGpu here = on_gpu();
  const Table table(parameters, [&](Entry& entry) {
    const auto steps = static_cast<double>(entry.span.step);
    entry.step_size = step.learning_rate / (1 - std::pow(step.beta1, steps));
    entry.inverse_root = 1 / std::sqrt(1 - std::pow(step.beta2, steps));
  });
  if (table.chunks() == 0) return;
  adam_all<<<grid_for(table.chunks(), 1), kThreads, 0, current_stream()>>>(table.entries(), table.count(),
                                                                           table.chunks(), step);
  check_launch("adam_all");
}

// Waits for the sums.
std::vector<double> CudaBackend::sum_of_squares(std::span<const ParameterSpan> parameters) {
  const OnGpu here = on_gpu();
  std::vector<double> result(parameters.size());
  const Table table(parameters, [](Entry&) {});
  if (table.chunks() == 0) return result;
  const DeviceBuffer parts(static_cast<std::size_t>(table.chunks()) * sizeof(double));  // (chunks)
  const DeviceBuffer sums(result.size() * sizeof(double));                              // (parameters)
  square_chunks<<<grid_for(table.chunks(), 1), kThreads, 0, current_stream()>>>(table.entries(), table.count(),
                                                                                table.chunks(), parts.as<double>());
  check_launch("square_chunks");
  join_squares<<<grid_for(table.count(), 1), kThreads, 0, current_stream()>>>(
      table.entries(), table.count(), table.chunks(), parts.as<double>(), sums.as<double>());
  check_launch("join_squares");
  cuda::copy_to_host(result.data(), sums.as<double>(), result.size() * sizeof(double));
  return result;
}

}  // namespace headway::inline v0::internal::cuda

// Comparisons, choices and extremes; the tasks are described in backend/compare_tasks.h.
#include <type_traits>

#include "backend/element_bits.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "cuda/backend.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kThreads = 256;

// Calls f.template operator()<T>() with the GPU's type of any dtype: bytes for booleans, whose byte may be any.
template <typename Function>
void dispatch_compared(DType dtype, const Function& f) {
  switch (dtype) {
    case DType::int32:
      return f.template operator()<std::int32_t>();
    case DType::int64:
      return f.template operator()<std::int64_t>();
    case DType::boolean:
      return f.template operator()<std::uint8_t>();
    default:
      return dispatch_elements(dtype, f);
  }
}

// An element as a number that can be compared.
template <typename T>
__device__ auto number_of(T element) {
  if constexpr (std::is_same_v<T, std::uint8_t>) {
    return static_cast<int>(element != 0);
  } else if constexpr (std::is_integral_v<T>) {
    return element;
  } else {
    return to_compute(element);
  }
}

template <typename Number>
__device__ bool compared(Comparison operation, Number a, Number b) {
  switch (operation) {
    case Comparison::equal:
      return a == b;
    case Comparison::not_equal:
      return a != b;
    case Comparison::less:
      return a < b;
    case Comparison::less_equal:
      return a <= b;
    case Comparison::greater:
      return a > b;
    default:
      return a >= b;
  }
}

// Calls body(i) for the elements of this thread.
template <typename Body>
__device__ void for_elements(std::int64_t count, const Body& body) {
  const std::int64_t step = gridDim.x * std::int64_t{kThreads};
  for (std::int64_t i = blockIdx.x * std::int64_t{kThreads} + threadIdx.x; i < count; i += step) body(i);
}

// ---- comparisons ----

template <typename T>
__global__ void compare_rows(CompareTask task) {
  const T* a = reinterpret_cast<const T*>(task.a);
  const T* b = reinterpret_cast<const T*>(task.b);
  for_elements(task.rows * task.columns, [&](std::int64_t i) {
    const std::int64_t row = i / task.columns, column = i % task.columns;
    const bool result = compared(task.operation, number_of(a[row * task.a_row_stride + column]),
                                 number_of(b[row * task.b_row_stride + column]));
    reinterpret_cast<bool*>(task.result)[i] = result;
  });
}

// Number: what the elements are compared in.
template <typename T, typename Number>
__global__ void compare_number(CompareTask task, Number number) {
  const T* a = reinterpret_cast<const T*>(task.a);
  for_elements(task.rows * task.columns, [&](std::int64_t i) {
    reinterpret_cast<bool*>(task.result)[i] = compared(task.operation, static_cast<Number>(number_of(a[i])), number);
  });
}

// The number in float64 as an element of a floating dtype has it.
double rounded_to(DType dtype, double number) {
  double rounded = number;
  dispatch_all(dtype, [&]<typename T>() {
    if constexpr (!std::is_integral_v<T>) rounded = convert<double>(convert<T>(number));
  });
  return rounded;
}

// ---- choices ----

template <typename Bits>
__global__ void select_elements(SelectTask task, Bits a_bits, Bits b_bits) {
  const auto* mask = reinterpret_cast<const std::uint8_t*>(task.mask);
  const Bits* a = reinterpret_cast<const Bits*>(task.a);
  const Bits* b = reinterpret_cast<const Bits*>(task.b);
  for_elements(task.count, [&](std::int64_t i) {
    const Bits chosen = mask[i] != 0 ? (a != nullptr ? a[i] : a_bits) : (b != nullptr ? b[i] : b_bits);
    reinterpret_cast<Bits*>(task.result)[i] = chosen;
  });
}

// ---- extremes ----

template <typename Number>
struct Found {
  Number number;
  std::int64_t index;  // negative: nothing yet
};

// Whether `candidate` takes the place of `found`: it is more extreme, or as extreme and comes before.
template <typename Number>
__device__ bool replaces(bool greatest, const Found<Number>& candidate, const Found<Number>& found) {
  if (candidate.index < 0 || found.index < 0) return found.index < 0 && candidate.index >= 0;
  const bool candidate_is_nan = candidate.number != candidate.number, found_is_nan = found.number != found.number;
  if (candidate_is_nan != found_is_nan) return candidate_is_nan;
  if (!candidate_is_nan && candidate.number != found.number) {
    return greatest ? candidate.number > found.number : candidate.number < found.number;
  }
  return candidate.index < found.index;
}

// A block for each result: its threads take elements in turn, then join what they found.
template <typename T>
__global__ void find_extremes(ExtremeTask task) {
  using Number = decltype(number_of(T()));
  __shared__ Found<Number> shared[kThreads];
  const T* x = reinterpret_cast<const T*>(task.x);
  for (std::int64_t at = blockIdx.x; at < task.outer * task.inner; at += gridDim.x) {
    const T* run = x + at / task.inner * task.middle * task.inner + at % task.inner;
    Found<Number> found = {Number(0), -1};
    for (std::int64_t i = threadIdx.x; i < task.middle; i += kThreads) {
      const Found<Number> candidate = {number_of(run[i * task.inner]), i};
      if (replaces(task.greatest, candidate, found)) found = candidate;
    }
    shared[threadIdx.x] = found;
    __syncthreads();
    for (unsigned half = kThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half && replaces(task.greatest, shared[threadIdx.x + half], shared[threadIdx.x])) {
        shared[threadIdx.x] = shared[threadIdx.x + half];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      task.indices[at] = shared[0].index;
      if (task.values != nullptr) reinterpret_cast<T*>(task.values)[at] = run[shared[0].index * task.inner];
    }
    __syncthreads();  // before the next result writes to `shared`
  }
}

template <typename Bits>
__global__ void place_elements(PlaceTask task) {
  for_elements(task.outer * task.inner, [&](std::int64_t at) {
    const std::int64_t row = at / task.inner * task.middle + task.indices[at];
    const std::int64_t to = row * task.inner + at % task.inner;
    reinterpret_cast<Bits*>(task.target)[to] = reinterpret_cast<const Bits*>(task.source)[at];
  });
}

}  // namespace

void CudaBackend::compare(const CompareTask& task) {
  const OnGpu here = on_gpu();
  const std::int64_t count = task.rows * task.columns;
  if (count == 0) return;
  const unsigned blocks = grid_for(count, kThreads);
  dispatch_compared(task.dtype, [&]<typename T>() {
    if (task.b != nullptr) {
      compare_rows<T><<<blocks, kThreads, 0, current_stream()>>>(task);
    } else if constexpr (std::is_integral_v<T>) {
      compare_number<T, double><<<blocks, kThreads, 0, current_stream()>>>(task, task.number);
    } else {
      const auto number = static_cast<Compute<T>>(rounded_to(task.dtype, task.number));
      compare_number<T, Compute<T>><<<blocks, kThreads, 0, current_stream()>>>(task, number);
    }
    check_launch("compare");
  });
}

void CudaBackend::select(const SelectTask& task) {
  const OnGpu here = on_gpu();
  if (task.count == 0) return;
  dispatch_size(task.dtype, [&]<typename Bits>() {
    select_elements<Bits><<<grid_for(task.count, kThreads), kThreads, 0, current_stream()>>>(
        task, bits_of<Bits>(task.a_number, task.dtype), bits_of<Bits>(task.b_number, task.dtype));
    check_launch("select");
  });
}

void CudaBackend::extreme(const ExtremeTask& task) {
  const OnGpu here = on_gpu();
  if (task.outer * task.inner == 0) return;
  dispatch_compared(task.dtype, [&]<typename T>() {
    find_extremes<T><<<grid_for(task.outer * task.inner, 1), kThreads, 0, current_stream()>>>(task);
    check_launch("extreme");
  });
}

void CudaBackend::place(const PlaceTask& task) {
  const OnGpu here = on_gpu();
  if (task.outer * task.inner == 0) return;
  dispatch_size(task.dtype, [&]<typename Bits>() {
    place_elements<Bits><<<grid_for(task.outer * task.inner, kThreads), kThreads, 0, current_stream()>>>(task);
    check_launch("place");
  });
}

}  // namespace headway::inline v0::internal::cuda

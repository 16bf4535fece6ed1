// Elementwise operations; the tasks are described in backend/pointwise_tasks.h.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cuda/backend.h"
#include "cuda/dropout.cuh"
#include "cuda/eight.cuh"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

constexpr int kThreads = 256;

// ---- packs: neighbouring elements that one thread takes ----

constexpr std::size_t kPackBytes = 16;
template <typename T>
constexpr int kPackCount = kPackBytes / sizeof(T);

template <typename T>
struct alignas(kPackBytes) Pack {
  T items[kPackCount<T>];
};

// Elements in the type that they are computed in.
template <typename T>
struct Values {
  Compute<T> items[kPackCount<T>];
};

// The first `count` elements from memory, the others zero. `whole`: all of them are there and aligned.
template <typename T>
__device__ Values<T> load_pack(const T* source, std::int64_t count, bool whole) {
  Values<T> values;
  if (whole) {
    const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(source);
#pragma unroll
    for (int i = 0; i < kPackCount<T>; ++i) values.items[i] = to_compute(pack.items[i]);
  } else {
#pragma unroll
    for (int i = 0; i < kPackCount<T>; ++i) values.items[i] = i < count ? to_compute(source[i]) : Compute<T>(0);
  }
  return values;
}

// The first `count` elements to memory.
template <typename T>
__device__ void store_pack(const Values<T>& values, T* target, std::int64_t count, bool whole) {
  if (whole) {
    Pack<T> pack;
#pragma unroll
    for (int i = 0; i < kPackCount<T>; ++i) pack.items[i] = from_compute<T>(values.items[i]);
    *reinterpret_cast<Pack<T>*>(target) = pack;
  } else {
#pragma unroll
    for (int i = 0; i < kPackCount<T>; ++i) {
      if (i < count) target[i] = from_compute<T>(values.items[i]);
    }
  }
}

// Whether packs at multiples of their size may be moved at once.
template <typename... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % kPackBytes == 0) && ...);
}

// Calls body(first element, elements left) for every pack of this thread.
template <typename T, typename Body>
__device__ void for_packs(std::int64_t count, const Body& body) {
  const std::int64_t step = gridDim.x * std::int64_t{kThreads} * kPackCount<T>;
  std::int64_t i = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * kPackCount<T>;
  for (; i < count; i += step) body(i, count - i);
}

// result (count) = function(x (count)); result may be x.
template <typename T, typename Function>
__global__ void map_one(T* result, const T* x, std::int64_t count, bool is_aligned, Function function) {
  for_packs<T>(count, [&](std::int64_t at, std::int64_t left) {
    const bool whole = is_aligned && left >= kPackCount<T>;
    Values<T> values = load_pack(x + at, left, whole);
#pragma unroll
    for (auto& value : values.items) value = function(value);
    store_pack<T>(values, result + at, left, whole);
  });
}

// result (count) = function(a (count), b (count)); result may be a or b.
template <typename T, typename Function>
__global__ void map_two(T* result, const T* a, const T* b, std::int64_t count, bool is_aligned, Function function) {
  for_packs<T>(count, [&](std::int64_t at, std::int64_t left) {
    const bool whole = is_aligned && left >= kPackCount<T>;
    Values<T> values = load_pack(a + at, left, whole);
    const Values<T> others = load_pack(b + at, left, whole);
#pragma unroll
    for (int i = 0; i < kPackCount<T>; ++i) values.items[i] = function(values.items[i], others.items[i]);
    store_pack<T>(values, result + at, left, whole);
  });
}

template <typename T, typename Function>
void launch_one(std::byte* result, const std::byte* x, std::int64_t count, const Function& function) {
  if (count == 0) return;
  map_one<T><<<grid_for(count, kThreads * kPackCount<T>), kThreads, 0, current_stream()>>>(
      reinterpret_cast<T*>(result), reinterpret_cast<const T*>(x), count, aligned(result, x), function);
  check_launch("map_one");
}

template <typename T, typename Function>
void launch_two(std::byte* result, const std::byte* a, const std::byte* b, std::int64_t count,
                const Function& function) {
  if (count == 0) return;
  map_two<T><<<grid_for(count, kThreads * kPackCount<T>), kThreads, 0, current_stream()>>>(
      reinterpret_cast<T*>(result), reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b), count,
      aligned(result, a, b), function);
  check_launch("map_two");
}

// ---- binary ----

template <Binary kOperation>
struct BinaryFunction {
  template <typename Real>
  __device__ Real operator()(Real a, Real b) const {
    if constexpr (kOperation == Binary::add) return a + b;
    if constexpr (kOperation == Binary::subtract) return a - b;
    if constexpr (kOperation == Binary::multiply) return a * b;
    if constexpr (kOperation == Binary::divide) return a / b;
    // A NaN in b fails every comparison and so is what is taken.
    if constexpr (kOperation == Binary::maximum) return a > b || a != a ? a : b;
    if constexpr (kOperation == Binary::minimum) return a < b || a != a ? a : b;
  }
};

// result (rows, columns) = a op b, of which one may be a row for all; strides are in elements.
template <Binary kOperation, typename T>
__global__ void binary_rows(T* result, const T* a, std::int64_t a_row_stride, const T* b, std::int64_t b_row_stride,
                            std::int64_t rows, std::int64_t columns, bool packs_fit_rows) {
  const BinaryFunction<kOperation> function;
  for_packs<T>(rows * columns, [&](std::int64_t at, std::int64_t left) {
    if (packs_fit_rows) {
      const std::int64_t row = at / columns, column = at % columns;
      Values<T> values = load_pack(a + row * a_row_stride + column, left, true);
      const Values<T> others = load_pack(b + row * b_row_stride + column, left, true);
#pragma unroll
      for (int i = 0; i < kPackCount<T>; ++i) values.items[i] = function(values.items[i], others.items[i]);
      store_pack<T>(values, result + at, left, true);
      return;
    }
    for (std::int64_t i = at; i < at + ::min(left, std::int64_t{kPackCount<T>}); ++i) {
      const std::int64_t row = i / columns, column = i % columns;
      result[i] = from_compute<T>(
          function(to_compute(a[row * a_row_stride + column]), to_compute(b[row * b_row_stride + column])));
    }
  });
}

template <Binary kOperation>
void binary_as(const BinaryTask& task) {
  const std::int64_t count = task.rows * task.columns;
  if (count == 0) return;
  const bool flat = task.rows == 1 || (task.a_row_stride == task.columns && task.b_row_stride == task.columns);
  dispatch_elements(task.dtype, [&]<typename T>() {
    if (flat) return launch_two<T>(task.result, task.a, task.b, count, BinaryFunction<kOperation>());
    const bool packs_fit_rows = aligned(task.result, task.a, task.b) && task.columns % kPackCount<T> == 0 &&
                                task.a_row_stride % kPackCount<T> == 0 && task.b_row_stride % kPackCount<T> == 0;
    binary_rows<kOperation, T><<<grid_for(count, kThreads * kPackCount<T>), kThreads, 0, current_stream()>>>(
        reinterpret_cast<T*>(task.result), reinterpret_cast<const T*>(task.a), task.a_row_stride,
        reinterpret_cast<const T*>(task.b), task.b_row_stride, task.rows, task.columns, packs_fit_rows);
    check_launch("binary_rows");
  });
}

// ---- functions of one operand ----

template <Unary kOperation, typename Real>
struct UnaryFunction {
  Real number;
  __device__ Real operator()(Real x) const {
    if constexpr (kOperation == Unary::add) return x + number;
    if constexpr (kOperation == Unary::subtract_from) return number - x;
    if constexpr (kOperation == Unary::divide) return x / number;
    if constexpr (kOperation == Unary::divide_into) return number / x;
    if constexpr (kOperation == Unary::exp) return ::exp(x);
    if constexpr (kOperation == Unary::log) return ::log(x);
    if constexpr (kOperation == Unary::sqrt) return ::sqrt(x);
    if constexpr (kOperation == Unary::power) return ::pow(x, number);
  }
};

template <Unary kOperation>
void unary_as(const UnaryTask& task) {
  dispatch_elements(task.dtype, [&]<typename T>() {
    using Real = Compute<T>;
    launch_one<T>(task.result, task.x, task.count, UnaryFunction<kOperation, Real>{static_cast<Real>(task.number)});
  });
}

template <typename Real>
struct LerpFunction {
  Real share;
  __device__ Real operator()(Real target, Real source) const { return target + (source - target) * share; }
};

template <typename Real>
struct ScaleFunction {
  Real factor;
  __device__ Real operator()(Real x) const { return x * factor; }
};

// ---- activations: the same formulas, and the same values at NaN and the infinities, as the CPU's ----

// x held between -limit and limit; NaN stays NaN.
template <typename Real>
__device__ Real bounded(Real x, Real limit) {
  return x < -limit ? -limit : x > limit ? limit : x;
}

// With e = exp(-|x|): 1 / (1 + e) and e / (1 + e), the sigmoid of |x| and of -|x|.
template <typename Real>
struct SigmoidParts {
  Real upper;
  Real lower;

  __device__ explicit SigmoidParts(Real x) {
    const Real e = ::exp(-fabs(x));
    upper = 1 / (1 + e);
    lower = e * upper;
  }
  __device__ Real value(Real x) const { return x < 0 ? lower : upper; }
  __device__ Real slope() const { return lower * upper; }
};

template <typename Real>
__device__ Real sigmoid(Real x) {
  return SigmoidParts<Real>(x).value(x);
}

// Phi(x) + x phi(x)
template <typename Real>
__device__ Real gelu_slope(Real x) {
  constexpr Real kInverseRoot = Real(0.39894228040143267794);  // 1 / sqrt(2 pi)
  const Real near = bounded(x, Real(50));                      // beyond any x whose density is not zero
  return fma(near, ::exp(near * near * Real(-0.5)) * kInverseRoot, normcdf(x));
}

// x (1 + tanh(v / 2)) / 2 is x sigmoid(v) with v = sqrt(8 / pi) (x + 0.044715 x^3), and that does not cancel.
constexpr double kGeluTanhScale = 1.59576912160573071176;
constexpr double kGeluTanhCube = 0.044715;
constexpr int kGeluTanhLimit = 50;  // sigmoid(v) is 0 or 1 there, and v still finite

template <typename Real>
__device__ Real gelu_tanh_inner(Real x) {
  return x * fma(x * x, Real(kGeluTanhScale * kGeluTanhCube), Real(kGeluTanhScale));
}

template <typename Real>
__device__ Real gelu_tanh_slope(Real x) {
  const Real near = bounded(x, Real(kGeluTanhLimit));
  const Real inner = gelu_tanh_inner(near);
  const SigmoidParts<Real> parts(inner);
  const Real inner_slope = fma(near * near, Real(3 * kGeluTanhScale * kGeluTanhCube), Real(kGeluTanhScale));
  return fma(near * inner_slope, parts.slope(), parts.value(inner));
}

template <typename Real>
__device__ Real silu_slope(Real x) {
  const SigmoidParts<Real> parts(x);
  return fma(bounded(x, Real(1000)), parts.slope(), parts.value(x));  // beyond 1000 the slope is 0 or 1
}

constexpr double kQuickGeluScale = 1.702;  // quick_gelu(x) = x sigmoid(1.702 x), whose slope is that of silu there

template <Activation kActivation>
struct ActivateFunction {
  template <typename Real>
  __device__ Real operator()(Real x) const {
    if constexpr (kActivation == Activation::none) return x;
    if constexpr (kActivation == Activation::relu) return x < 0 ? Real(0) : x;
    if constexpr (kActivation == Activation::gelu) return x * normcdf(x);
    if constexpr (kActivation == Activation::gelu_tanh) {
      return x * sigmoid(gelu_tanh_inner(bounded(x, Real(kGeluTanhLimit))));
    }
    if constexpr (kActivation == Activation::silu) return x * sigmoid(x);
    if constexpr (kActivation == Activation::tanh) return ::tanh(x);
    if constexpr (kActivation == Activation::sigmoid) return sigmoid(x);
    if constexpr (kActivation == Activation::quick_gelu) return x * sigmoid(x * Real(kQuickGeluScale));
  }
};

// d_after * slope, from the output where slope_from_output() says so.
template <Activation kActivation>
struct ActivationBackwardFunction {
  template <typename Real>
  __device__ Real operator()(Real d_after, Real saved) const {
    if constexpr (kActivation == Activation::none) return d_after;
    if constexpr (kActivation == Activation::relu) return saved <= 0 ? Real(0) : d_after;  // infinity * 0 is NaN
    if constexpr (kActivation == Activation::gelu) return d_after * gelu_slope(saved);
    if constexpr (kActivation == Activation::gelu_tanh) return d_after * gelu_tanh_slope(saved);
    if constexpr (kActivation == Activation::silu) return d_after * silu_slope(saved);
    if constexpr (kActivation == Activation::quick_gelu) return d_after * silu_slope(saved * Real(kQuickGeluScale));
    if constexpr (kActivation == Activation::tanh) return d_after * fma(-saved, saved, Real(1));
    if constexpr (kActivation == Activation::sigmoid) return d_after * fma(-saved, saved, saved);
  }
};

// The same of d_after * factor.
template <Activation kActivation, typename Real>
struct ScaledBackwardFunction {
  Real factor;
  __device__ Real operator()(Real d_after, Real saved) const {
    return ActivationBackwardFunction<kActivation>()(d_after * factor, saved);
  }
};

// Calls f.template operator()<kActivation>() with the activation.
template <typename Function>
void dispatch_activation(Activation activation, const Function& f) {
  switch (activation) {
    case Activation::none:
      return f.template operator()<Activation::none>();
    case Activation::relu:
      return f.template operator()<Activation::relu>();
    case Activation::gelu:
      return f.template operator()<Activation::gelu>();
    case Activation::gelu_tanh:
      return f.template operator()<Activation::gelu_tanh>();
    case Activation::silu:
      return f.template operator()<Activation::silu>();
    case Activation::tanh:
      return f.template operator()<Activation::tanh>();
    case Activation::sigmoid:
      return f.template operator()<Activation::sigmoid>();
    case Activation::quick_gelu:
      return f.template operator()<Activation::quick_gelu>();
  }
}

// ---- dropout ----

// result = dropout(x), or base + that: eight neighbours for each thread. first: the index of the first element.
template <typename T>
__global__ void drop_elements(T* result, const T* base, const T* x, std::int64_t count, std::int64_t first,
                              bool is_aligned, ElementDropout rule) {
  constexpr int kPacks = kEight / kPackCount<T>;
  const auto scale = static_cast<Compute<T>>(rule.scale);
  const std::int64_t step = gridDim.x * std::int64_t{kThreads} * kEight;
  const std::int64_t end = (count + kEight * 32 - 1) / (kEight * 32) * (kEight * 32);  // whole warps take part
  for (std::int64_t i = (blockIdx.x * std::int64_t{kThreads} + threadIdx.x) * kEight; i < end; i += step) {
    Values<T> values[kPacks];  // read before the draws, which take their time
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t at = i + pack * kPackCount<T>, left = count - at;
      values[pack] = load_pack(x + at, left, is_aligned && left >= kPackCount<T>);
    }
    const std::uint32_t kept = kept_of_eight(rule, first + i);
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const std::int64_t at = i + pack * kPackCount<T>, left = count - at;
      if (left <= 0) break;
      const bool whole = is_aligned && left >= kPackCount<T>;
#pragma unroll
      for (int j = 0; j < kPackCount<T>; ++j) {
        values[pack].items[j] = dropped(values[pack].items[j], kept >> (pack * kPackCount<T> + j) & 1, scale);
      }
      if (base != nullptr) {
        const Values<T> bases = load_pack(base + at, left, whole);
#pragma unroll
        for (int j = 0; j < kPackCount<T>; ++j) values[pack].items[j] = bases.items[j] + values[pack].items[j];
      }
      store_pack<T>(values[pack], result + at, left, whole);
    }
  }
}

}  // namespace

void CudaBackend::binary(const BinaryTask& task) {
  const OnGpu here = on_gpu();
  switch (task.operation) {
    case Binary::add:
      return binary_as<Binary::add>(task);
    case Binary::subtract:
      return binary_as<Binary::subtract>(task);
    case Binary::multiply:
      return binary_as<Binary::multiply>(task);
    case Binary::divide:
      return binary_as<Binary::divide>(task);
    case Binary::maximum:
      return binary_as<Binary::maximum>(task);
    case Binary::minimum:
      return binary_as<Binary::minimum>(task);
  }
}

void CudaBackend::unary(const UnaryTask& task) {
  const OnGpu here = on_gpu();
  switch (task.operation) {
    case Unary::add:
      return unary_as<Unary::add>(task);
    case Unary::subtract_from:
      return unary_as<Unary::subtract_from>(task);
    case Unary::divide:
      return unary_as<Unary::divide>(task);
    case Unary::divide_into:
      return unary_as<Unary::divide_into>(task);
    case Unary::exp:
      return unary_as<Unary::exp>(task);
    case Unary::log:
      return unary_as<Unary::log>(task);
    case Unary::sqrt:
      return unary_as<Unary::sqrt>(task);
    case Unary::power:
      return unary_as<Unary::power>(task);
  }
}

void CudaBackend::scale(const ScaleTask& task) {
  const OnGpu here = on_gpu();
  dispatch_elements(task.dtype, [&]<typename T>() {
    using Real = Compute<T>;
    launch_one<T>(task.result, task.x, task.count, ScaleFunction<Real>{static_cast<Real>(task.factor)});
  });
}

void CudaBackend::lerp(const LerpTask& task) {
  const OnGpu here = on_gpu();
  dispatch_elements(task.dtype, [&]<typename T>() {
    using Real = Compute<T>;
    launch_two<T>(task.target, task.target, task.source, task.count, LerpFunction<Real>{static_cast<Real>(task.share)});
  });
}

void CudaBackend::activate(const ActivateTask& task) {
  const OnGpu here = on_gpu();
  dispatch_activation(task.activation, [&]<Activation kActivation>() {
    dispatch_elements(task.dtype, [&]<typename T>() {
      launch_one<T>(task.result, task.x, task.count, ActivateFunction<kActivation>());
    });
  });
}

void CudaBackend::activation_backward(const ActivationBackward& task) {
  const OnGpu here = on_gpu();
  dispatch_activation(task.activation, [&]<Activation kActivation>() {
    dispatch_elements(task.dtype, [&]<typename T>() {
      using Real = Compute<T>;
      launch_two<T>(task.d_before, task.d_after, task.saved, task.rows * task.columns,
                    ScaledBackwardFunction<kActivation, Real>{static_cast<Real>(task.factor)});
    });
  });
  if (task.sums == nullptr) return;
  middle_sum_as(
      {.dtype = task.dtype, .middle = task.rows, .inner = task.columns, .x = task.d_before, .target = task.sums},
      task.sums_dtype);
}

void CudaBackend::dropout(const DropoutTask& task) {
  const OnGpu here = on_gpu();
  if (task.count == 0) return;
  dispatch_elements(task.dtype, [&]<typename T>() {
    drop_elements<T><<<grid_for(task.count, kThreads * kEight), kThreads, 0, current_stream()>>>(
        reinterpret_cast<T*>(task.result), reinterpret_cast<const T*>(task.base), reinterpret_cast<const T*>(task.x),
        task.count, task.first, aligned(task.result, task.base, task.x), task.rule);
    check_launch("drop_elements");
  });
}

// Sums are taken in float64; their order follows from the shape.
void CudaBackend::column_sums(const ColumnSums& task) {
  const OnGpu here = on_gpu();
  middle_sum_as({.dtype = task.dtype, .middle = task.rows, .inner = task.columns, .x = task.x, .target = task.sums},
                task.sums_dtype);
}

}  // namespace headway::inline v0::internal::cuda

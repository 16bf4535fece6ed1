// The pointwise kernels of one instruction set.
#include "cpu/kernels/target-inl.h"
// The target first: everything below depends on it.
#include "cpu/kernels/kernel_parts.h"

#if !defined(HEADWAY_KERNEL_TARGET_AVX512_BF16)  // these have no bf16 dot products
#include "cpu/kernels/pointwise-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headway::inline v0::internal::HWY_NAMESPACE {
namespace {

// Calls the body with a null pointer of the element type.
template <class Body>
HWY_INLINE void with_element(DType dtype, const Body& body) {
  switch (dtype) {
    case DType::float64:
      return body(static_cast<double*>(nullptr));
    case DType::bfloat16:
      return body(static_cast<bfloat16*>(nullptr));
    case DType::float16:
      return body(static_cast<float16*>(nullptr));
    default:
      return body(static_cast<float*>(nullptr));
  }
}

// Calls the body with the activation as a type.
template <Activation kActivation>
using ActivationConstant = std::integral_constant<Activation, kActivation>;
template <class Body>
HWY_INLINE void with_activation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::none:
      return body(ActivationConstant<Activation::none>());
    case Activation::relu:
      return body(ActivationConstant<Activation::relu>());
    case Activation::gelu:
      return body(ActivationConstant<Activation::gelu>());
    case Activation::gelu_tanh:
      return body(ActivationConstant<Activation::gelu_tanh>());
    case Activation::silu:
      return body(ActivationConstant<Activation::silu>());
    case Activation::tanh:
      return body(ActivationConstant<Activation::tanh>());
    case Activation::sigmoid:
      return body(ActivationConstant<Activation::sigmoid>());
    case Activation::quick_gelu:
      return body(ActivationConstant<Activation::quick_gelu>());
  }
}

void binary(const BinaryTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    switch (task.operation) {
      case Binary::add:
        return binary_rows<Binary::add, T>(task);
      case Binary::subtract:
        return binary_rows<Binary::subtract, T>(task);
      case Binary::multiply:
        return binary_rows<Binary::multiply, T>(task);
      case Binary::divide:
        return binary_rows<Binary::divide, T>(task);
      case Binary::maximum:
        return binary_rows<Binary::maximum, T>(task);
      case Binary::minimum:
        return binary_rows<Binary::minimum, T>(task);
    }
  });
}

template <Unary kOperation, typename Real>
HWY_INLINE void unary_elements(const UnaryTask& task, const Real* x, Real* result, std::int64_t count) {
  map_elements(result, count, UnaryFunction<kOperation, Real>{static_cast<Real>(task.number)}, x);
}

// result (count) = function(x (count)) in the type that is computed in. Out of line: 16-bit elements come here too.
template <typename Real>
HWY_NOINLINE void unary_reals(const UnaryTask& task, const Real* x, Real* result, std::int64_t count) {
  switch (task.operation) {
    case Unary::add:
      return unary_elements<Unary::add>(task, x, result, count);
    case Unary::subtract_from:
      return unary_elements<Unary::subtract_from>(task, x, result, count);
    case Unary::divide:
      return unary_elements<Unary::divide>(task, x, result, count);
    case Unary::divide_into:
      return unary_elements<Unary::divide_into>(task, x, result, count);
    case Unary::exp:
      return unary_elements<Unary::exp>(task, x, result, count);
    case Unary::log:
      return unary_elements<Unary::log>(task, x, result, count);
    case Unary::sqrt:
      return unary_elements<Unary::sqrt>(task, x, result, count);
    case Unary::power:
      return power_elements(x, result, count, static_cast<Real>(task.number));
  }
}

void unary(const UnaryTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    const T* x = reinterpret_cast<const T*>(task.x);
    T* result = reinterpret_cast<T*>(task.result);
    if constexpr (std::is_same_v<T, ComputeType<T>>) {
      unary_reals(task, x, result, task.count);
    } else {
      constexpr std::int64_t kBlock = 256;
      alignas(64) float block[kBlock];  // what 16-bit elements are between the conversions
      for (std::int64_t begin = 0; begin < task.count; begin += kBlock) {
        const std::int64_t count = std::min(kBlock, task.count - begin);
        map_elements(block, count, SameFunction(), x + begin);
        unary_reals<float>(task, block, block, count);
        map_elements(result + begin, count, SameFunction(), static_cast<const float*>(block));
      }
    }
  });
}

void scale(const ScaleTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    using Real = ComputeType<T>;
    map_elements(reinterpret_cast<T*>(task.result), task.count, ScaleFunction<Real>{static_cast<Real>(task.factor)},
                 reinterpret_cast<const T*>(task.x));
  });
}

void activate(const ActivateTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    with_activation(task.activation, [&]<Activation kActivation>(ActivationConstant<kActivation>) HWY_ATTR {
      map_elements(reinterpret_cast<T*>(task.result), task.count, ActivateFunction<kActivation>(),
                   reinterpret_cast<const T*>(task.x));
    });
  });
}

void activation_backward(const ActivationBackwardTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    with_activation(task.activation, [&]<Activation kActivation>(ActivationConstant<kActivation>)
                                         HWY_ATTR { activation_backward_rows<kActivation, T>(task); });
  });
}

void column_sums(const ColumnSumsTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR { sum_rows<T>(task); });
}

void dropout(const DropoutTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR {
    if (task.base != nullptr) {
      DropoutRows<T, true>(task).run();
    } else {
      DropoutRows<T, false>(task).run();
    }
  });
}

void rotary(const RotaryTask& task) noexcept {
  with_element(task.dtype, [&]<typename T>(T*) HWY_ATTR { rotate_rows<T>(task); });
}

}  // namespace

void add_pointwise(KernelSet& set) {
  set.pointwise = {binary, unary, scale, activate, activation_backward, column_sums, dropout, rotary};
}

}  // namespace headway::inline v0::internal::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif

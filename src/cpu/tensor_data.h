// The memory of tensors whose dtype is known, and the type of sums.
#pragma once

#include <type_traits>

#include "headway/tensor.h"

namespace headway::inline v0::internal::cpu {

template <typename T>
T* tensor_data(const Tensor& tensor) {
  return static_cast<T*>(tensor.raw_data());
}

// The start of row `row` of a matrix whose rows have any stride.
inline std::byte* row_of(const Tensor& matrix, std::int64_t row) {
  return tensor_data<std::byte>(matrix) + row * matrix.stride(0) * static_cast<std::int64_t>(item_size(matrix.dtype()));
}

// The type in which sums of T are computed.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace headway::inline v0::internal::cpu

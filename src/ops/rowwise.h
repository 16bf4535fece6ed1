// What the operations over rows have in common.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/registry.h"
#include "base/check.h"
#include "ops/checks.h"
#include "ops/dense.h"

namespace headway::inline v0::internal {

// The dtype of sums over rows.
inline DType statistics_dtype(DType dtype) { return dtype == DType::float64 ? DType::float64 : DType::float32; }

// The indices of an element from its place in row-major order.
inline Shape indices_of(std::int64_t place, const Shape& shape) {
  Shape indices = shape;
  for (int dim = shape.rank() - 1; dim >= 0; --dim) {
    indices[dim] = place % shape[dim];
    place /= shape[dim];
  }
  return indices;
}

// All elements of an int32 or int64 tensor in row-major order.
inline std::vector<std::int64_t> read_integers(const char* function, const char* name, const Tensor& tensor) {
  check(tensor.defined(), function, ": ", name, " is not given, expected a tensor of int32 or int64");
  check(tensor.dtype() == DType::int32 || tensor.dtype() == DType::int64, function, ": ", name, " is ", tensor,
        ", expected int32 or int64");
  const Tensor values = tensor.to(Device::cpu()).contiguous();
  const std::int64_t count = values.element_count();
  if (tensor.dtype() == DType::int64) {
    return {values.data<std::int64_t>(), values.data<std::int64_t>() + count};
  }
  return {values.data<std::int32_t>(), values.data<std::int32_t>() + count};
}

// Checks a floating tensor with at least one dimension.
inline void check_rows(const char* function, const char* name, const Tensor& tensor) {
  check(tensor.defined(), function, ": ", name, " is not given, expected a floating tensor");
  check(is_floating(tensor.dtype()), function, ": ", name, " is ", tensor, ", expected a floating dtype");
  check(tensor.rank() >= 1, function, ": ", name, " is ", tensor, ", expected at least one dimension");
}

// Checks a parameter of the last dimension; undefined ones pass.
inline void check_feature_parameter(const char* function, const char* name, const Tensor& parameter, const Tensor& x) {
  if (!parameter.defined()) return;
  check(parameter.rank() == 1 && parameter.size(0) == x.size(-1) && parameter.dtype() == x.dtype(), function, ": ",
        name, " is ", parameter, ", expected ", x.dtype(), "[", x.size(-1), "] for x ", x);
  check_same_device(function, "x", x, name, parameter);
}

}  // namespace headway::inline v0::internal

// Selection by a mask, not recorded: for where() and for gradients of other operations.
#pragma once

#include "headway/tensor.h"

namespace headway::inline v0::internal {

// A tensor, or where it is undefined a number for every element.
struct TensorOrNumber {
  Tensor tensor = {};
  double number = 0;
};

// mask ? a : b in `shape`, to which the three broadcast; the numbers are of `dtype`.
Tensor choose(const Tensor& mask, const TensorOrNumber& a, const TensorOrNumber& b, const Shape& shape, DType dtype);

}  // namespace headway::inline v0::internal

// Copies between strided memory, with a conversion of the element type.
#pragma once

#include "headway/dtype.h"
#include "headway/shape.h"

namespace headway::inline v0::internal {

struct StridedTarget {
  void* data;
  Shape strides;  // in elements
  DType dtype;
};

struct StridedSource {
  const void* data;
  Shape strides;  // in elements; 0 where broadcast
  DType dtype;
};

// target[i] = source[i] for every index i of the shape. The two must not overlap.
void strided_copy(const StridedTarget& target, const StridedSource& source, const Shape& shape);

}  // namespace headway::inline v0::internal

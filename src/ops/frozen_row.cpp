#include "ops/frozen_row.h"

#include <utility>

#include "core/autograd.h"

namespace headway::inline v0::internal {

Tensor with_frozen_row(const Tensor& matrix, std::int64_t row) {
  if (!needs_gradient(matrix)) return matrix;
  Tensor result = matrix.detach();
  record("with_frozen_row", {matrix}, {result}, [row](BackwardCall& call) -> Tensors {
    Tensor gradient = std::exchange(call.d_outputs[0], Tensor());  // (rows, columns)
    if (!is_uniquely_owned(gradient) || !gradient.is_contiguous()) gradient = gradient.clone();
    gradient.select(0, row).fill(0.0);
    return {gradient};
  });
  return result;
}

}  // namespace headway::inline v0::internal

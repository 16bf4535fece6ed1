// stack(): a concat() of views with a new dimension.
#include "base/check.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"

namespace headway::inline v0 {

Tensor stack(const std::vector<Tensor>& tensors, int dim) {
  using internal::check;
  check(!tensors.empty(), "stack: there are no tensors, expected at least one");
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    check(tensors[i].defined(), "stack: tensor ", i, " is undefined");
    check(tensors[i].shape() == tensors[0].shape() && tensors[i].dtype() == tensors[0].dtype(), "stack: tensor ", i,
          " is ", tensors[i], " and the first ", tensors[0], ", expected one shape and one dtype");
  }
  const int along = internal::checked_dim("stack", dim, tensors[0].rank() + 1);
  std::vector<Tensor> rows;
  rows.reserve(tensors.size());
  for (const Tensor& tensor : tensors) rows.push_back(tensor.unsqueeze(along));
  return concat(rows, along);
}

}  // namespace headway::inline v0

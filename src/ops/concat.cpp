// concat(): tensors side by side; their gradients are views of the whole's.
#include "base/check.h"
#include "core/autograd.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The shape of the whole; throws where a tensor does not fit to the first.
Shape joined_shape(const std::vector<Tensor>& tensors, int dim) {
  Shape shape = tensors[0].shape();
  shape[dim] = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& tensor = tensors[i];
    bool fits = tensor.rank() == shape.rank() && tensor.dtype() == tensors[0].dtype();
    for (int other = 0; fits && other < shape.rank(); ++other) {
      fits = other == dim || tensor.shape()[other] == shape[other];
    }
    check(fits, "concat: tensor ", i, " is ", tensor, ", which does not fit to the first, ", tensors[0],
          ", along dimension ", dim);
    check(tensor.device() == tensors[0].device(), "concat: tensor ", i, " is on ", tensor.device(),
          ", and the first on ", tensors[0].device(), ", expected one device");
    shape[dim] += tensor.shape()[dim];
  }
  return shape;
}

bool any_needs_gradient(const std::vector<Tensor>& tensors) {
  for (const Tensor& tensor : tensors) {
    if (needs_gradient(tensor)) return true;
  }
  return false;
}

}  // namespace
}  // namespace internal

Tensor concat(const std::vector<Tensor>& tensors, int dim) {
  using internal::check;
  check(!tensors.empty(), "concat: there are no tensors, expected at least one");
  for (std::size_t i = 0; i < tensors.size(); ++i) check(tensors[i].defined(), "concat: tensor ", i, " is undefined");
  const int along = internal::checked_dim("concat", dim, tensors[0].rank());
  Tensor result = Tensor::empty(internal::joined_shape(tensors, along), tensors[0].dtype(), tensors[0].device());
  std::vector<std::int64_t> begins = {0};
  for (const Tensor& tensor : tensors) {
    result.slice(along, begins.back(), begins.back() + tensor.size(along)).copy_from(tensor);
    begins.push_back(begins.back() + tensor.size(along));
  }
  if (internal::any_needs_gradient(tensors)) {
    internal::record("concat", tensors, {result}, [along, begins](internal::BackwardCall& call) {
      internal::Tensors gradients(begins.size() - 1);
      for (std::size_t i = 0; i < gradients.size(); ++i) {
        if (call.wants(i)) gradients[i] = call.d_output().slice(along, begins[i], begins[i + 1]);
      }
      return gradients;
    });
  }
  return result;
}

}  // namespace headway::inline v0

// softmax() and log_softmax().
#include "base/check.h"
#include "core/autograd.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"
#include "ops/rowwise.h"

namespace headway::inline v0 {
namespace {

using internal::BackwardCall;
using internal::Saved;
using internal::SoftmaxKind;
using internal::Tensors;

// With dimension `dim` moved last, and dense.
Tensor with_last(const Tensor& x, int dim) {
  return dim == x.rank() - 1 ? internal::dense(x) : x.detach().transpose(dim, -1).contiguous();
}

Tensor softmax_backward(SoftmaxKind kind, int dim, const Tensor& y, BackwardCall& call) {
  Tensor d_y = internal::take_dense(call.d_outputs[0]);
  const bool is_last = dim == y.rank() - 1;
  if (!is_last) d_y = with_last(d_y, dim);
  Tensor d_x = internal::reuse(d_y);
  internal::backend_of(y).softmax_backward(kind, with_last(y, dim), d_y, d_x);
  return is_last ? d_x : d_x.transpose(dim, -1);
}

Tensor softmax_of_kind(const char* name, SoftmaxKind kind, const Tensor& x, int dim) {
  internal::check_rows(name, "x", x);
  dim = internal::checked_dim(name, dim, x.rank());
  const Tensor rows = with_last(x, dim);
  Tensor y = Tensor::empty(rows.shape(), x.dtype(), x.device());
  internal::backend_of(x).softmax(kind, rows, y);
  if (dim != x.rank() - 1) y = y.transpose(dim, -1).contiguous();
  if (internal::needs_gradient(x)) {
    internal::record(name, {x}, {y}, [kind, dim, saved = Saved(name, y)](BackwardCall& call) {
      return Tensors{softmax_backward(kind, dim, saved.get(), call)};
    });
  }
  return y;
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) { return softmax_of_kind("softmax", SoftmaxKind::softmax, x, dim); }

Tensor log_softmax(const Tensor& x, int dim) { return softmax_of_kind("log_softmax", SoftmaxKind::logarithm, x, dim); }

}  // namespace headway::inline v0

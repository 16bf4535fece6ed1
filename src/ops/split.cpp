// split(): neighbouring parts of a tensor, whose gradients are written side by side.
#include "base/check.h"
#include "core/autograd.h"
#include "core/tensor_impl.h"
#include "headway/ops.h"

namespace headway::inline v0 {

std::vector<Tensor> split(const Tensor& x, const std::vector<std::int64_t>& sizes, int dim) {
  const int which = internal::checked_dim("split", dim, x.rank());
  std::int64_t total = 0;
  for (const std::int64_t size : sizes) {
    internal::check(size >= 0 && size <= x.size(which) - total, "split: the sizes go past the ", x.size(which),
                    " of dimension ", dim, " of ", x);
    total += size;
  }
  internal::check(total == x.size(which), "split: the sizes add up to ", total, ", and dimension ", dim, " of ", x,
                  " has ", x.size(which));
  const bool recorded = internal::needs_gradient(x);
  const NoGradGuard guard;
  std::vector<Tensor> parts;
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    parts.push_back(x.slice(which, begin, begin + size));
    begin += size;
  }
  if (recorded) {
    internal::record(
        "split", {x}, parts,
        [shape = x.shape(), dtype = x.dtype(), device = x.device(), sizes, which](internal::BackwardCall& call) {
          const Tensor d_x = Tensor::empty(shape, dtype, device);
          std::int64_t start = 0;
          for (std::size_t i = 0; i < sizes.size(); ++i) {
            Tensor d_part = d_x.slice(which, start, start + sizes[i]);
            start += sizes[i];
            if (call.d_outputs[i].defined()) {
              d_part.copy_from(call.d_outputs[i]);
            } else {
              d_part.fill(0);
            }
          }
          return internal::Tensors{d_x};
        });
  }
  return parts;
}

}  // namespace headway::inline v0

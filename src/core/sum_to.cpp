// Sums over broadcast dimensions.
#include <vector>

#include "core/autograd.h"
#include "core/device_memory.h"
#include "core/tensor_impl.h"

namespace headway::inline v0::internal {

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const int added = x.rank() - shape.rank();
  // Kept dimensions first, summed ones last, then one sum over neighbours; or the other way round where the summed ones
  // lead, as for a bias.
  std::vector<int> kept, summed;
  for (int dim = 0; dim < x.rank(); ++dim) {
    const bool is_summed = dim < added || (shape[dim - added] == 1 && x.shape()[dim] != 1);
    (is_summed ? summed : kept).push_back(dim);
  }
  MiddleSum sizes;
  for (const int dim : summed) sizes.middle *= x.shape()[dim];
  std::int64_t kept_count = 1;
  for (const int dim : kept) kept_count *= x.shape()[dim];
  const bool summed_lead = kept.empty() || summed.empty() || summed.back() < kept.front();
  std::vector<int> order = summed_lead ? summed : kept;
  order.insert(order.end(), (summed_lead ? kept : summed).begin(), (summed_lead ? kept : summed).end());
  const Tensor dense = x.detach().permute(order).contiguous();
  (summed_lead ? sizes.inner : sizes.outer) = kept_count;
  Tensor target = Tensor::empty(shape, x.dtype(), x.device());
  if (target.element_count() == 0) return target;
  sizes.dtype = x.dtype();
  sizes.x = static_cast<const std::byte*>(dense.raw_data());
  sizes.target = static_cast<std::byte*>(target.raw_data());
  memory_of(x.device()).middle_sum(sizes);
  return target;
}

}  // namespace headway::inline v0::internal

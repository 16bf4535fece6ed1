// Views: the same storage with another shape, other strides or another start.
#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "core/autograd.h"
#include "core/tensor_impl.h"

namespace headway::inline v0 {

using internal::check;
using internal::checked_dim;

namespace {

// Records how a view's gradient becomes its source's.
Tensor recorded(const char* name, const Tensor& source, Tensor view, std::function<Tensor(const Tensor& d_view)> back) {
  if (internal::needs_gradient(source)) {
    internal::record(name, {source}, {view}, [back = std::move(back)](internal::BackwardCall& call) {
      return internal::Tensors{back(call.d_output())};
    });
  }
  return view;
}

// The gradient of a part of a tensor, with zeros around it.
template <typename Part>
Tensor embed_gradient(const Tensor& d_view, const Shape& shape, const Part& part) {
  Tensor d_source = Tensor::zeros(shape, d_view.dtype(), d_view.device());
  part(d_source).copy_from(d_view);
  return d_source;
}

// The shape with its -1, if it has one, replaced by the size that follows from the element count.
Shape resolve_shape(const char* function, const Tensor& tensor, const Shape& shape) {
  Shape resolved = shape;
  int unknown = -1;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    if (shape[dim] == -1) {
      check(unknown < 0, function, ": shape ", shape, " has more than one -1");
      unknown = dim;
      resolved[dim] = 1;
    }
  }
  const std::int64_t known = internal::checked_element_count(resolved, tensor.dtype());
  if (unknown >= 0) {
    check(known > 0 && tensor.element_count() % known == 0, function, ": ", tensor, " does not fit into shape ", shape);
    resolved[unknown] = tensor.element_count() / known;
  } else {
    check(known == tensor.element_count(), function, ": ", tensor, " has ", tensor.element_count(), " elements, shape ",
          shape, " has ", known);
  }
  return resolved;
}

// The strides that show the tensor's elements in the new shape, or nothing where no strides do. Neighbouring old
// dimensions that form one evenly strided run are merged, and each run must be cut exactly by new dimensions.
std::optional<Shape> view_strides(const Tensor& tensor, const Shape& shape) {
  Shape strides = internal::contiguous_strides(shape);
  if (tensor.element_count() == 0) {
    return strides;
  }
  Shape old_sizes;  // without sizes of 1, whose strides mean nothing
  Shape old_strides;
  for (int dim = 0; dim < tensor.rank(); ++dim) {
    if (tensor.shape()[dim] != 1) {
      old_sizes.push_back(tensor.shape()[dim]);
      old_strides.push_back(tensor.strides()[dim]);
    }
  }
  int dim = shape.rank() - 1;
  for (int old_dim = old_sizes.rank() - 1; old_dim >= 0; --old_dim) {
    const std::int64_t run_stride = old_strides[old_dim];
    std::int64_t run = old_sizes[old_dim];
    while (old_dim > 0 && old_strides[old_dim - 1] == run * run_stride) {
      run *= old_sizes[--old_dim];
    }
    std::int64_t taken = 1;
    while (taken < run) {  // the counts are equal, so a new dimension is left as long as elements are
      strides[dim] = taken * run_stride;
      taken *= shape[dim--];
    }
    if (taken != run) {
      return std::nullopt;
    }
  }
  return strides;
}

}  // namespace

Tensor Tensor::transpose(int dim0, int dim1) const {
  const int first = checked_dim("transpose", dim0, rank());
  const int second = checked_dim("transpose", dim1, rank());
  Shape new_shape = shape();
  Shape new_strides = strides();
  std::swap(new_shape[first], new_shape[second]);
  std::swap(new_strides[first], new_strides[second]);
  return recorded("transpose", *this, impl_->view(0, new_shape, new_strides),
                  [first, second](const Tensor& d_view) { return d_view.transpose(first, second); });
}

Tensor Tensor::permute(const std::vector<int>& dims) const {
  check(static_cast<int>(dims.size()) == rank(), "permute: ", dims.size(), " dimensions came for ", *this);
  Shape new_shape;
  Shape new_strides;
  std::vector<int> inverse(dims.size());
  unsigned seen = 0;
  for (const int given : dims) {
    const int dim = checked_dim("permute", given, rank());
    check((seen >> dim & 1) == 0, "permute: dimension ", given, " comes twice");
    seen |= 1u << dim;
    inverse[static_cast<std::size_t>(dim)] = new_shape.rank();
    new_shape.push_back(shape()[dim]);
    new_strides.push_back(strides()[dim]);
  }
  return recorded("permute", *this, impl_->view(0, new_shape, new_strides),
                  [inverse](const Tensor& d_view) { return d_view.permute(inverse); });
}

Tensor Tensor::slice(int dim, std::int64_t start, std::int64_t end, std::int64_t step) const {
  const int which = checked_dim("slice", dim, rank());
  check(step >= 1, "slice: step is ", step, ", expected at least 1");
  const std::int64_t size = shape()[which];
  const auto position = [size](std::int64_t given) {
    return std::clamp<std::int64_t>(given < 0 ? given + size : given, 0, size);
  };
  const std::int64_t first = position(start);
  const std::int64_t length = std::max<std::int64_t>(position(end) - first, 0);
  Shape new_shape = shape();
  Shape new_strides = strides();
  new_shape[which] = length / step + (length % step != 0);
  // A stride past the one remaining element is never taken, and might not fit into 64 bits.
  new_strides[which] *= new_shape[which] > 1 ? step : 1;
  return recorded("slice", *this, impl_->view(length > 0 ? first * strides()[which] : 0, new_shape, new_strides),
                  [=, whole = shape()](const Tensor& d_view) {
                    return embed_gradient(d_view, whole, [&](const Tensor& d_source) {
                      return d_source.slice(which, first, first + length, step);
                    });
                  });
}

Tensor Tensor::select(int dim, std::int64_t index) const {
  const int which = checked_dim("select", dim, rank());
  const std::int64_t size = shape()[which];
  check(index >= -size && index < size, "select: index ", index, " is out of range for size ", size);
  Shape new_shape;
  Shape new_strides;
  for (int other = 0; other < rank(); ++other) {
    if (other != which) {
      new_shape.push_back(shape()[other]);
      new_strides.push_back(strides()[other]);
    }
  }
  const std::int64_t position = index < 0 ? index + size : index;
  return recorded("select", *this, impl_->view(position * strides()[which], new_shape, new_strides),
                  [=, whole = shape()](const Tensor& d_view) {
                    return embed_gradient(d_view, whole,
                                          [&](const Tensor& d_source) { return d_source.select(which, position); });
                  });
}

Tensor Tensor::unsqueeze(int dim) const {
  const int where = checked_dim("unsqueeze", dim, rank() + 1);
  Shape new_shape;
  Shape new_strides;
  for (int other = 0; other <= rank(); ++other) {
    if (other == where) {
      new_shape.push_back(1);
      new_strides.push_back(other < rank() ? strides()[other] * std::max<std::int64_t>(shape()[other], 1) : 1);
    }
    if (other < rank()) {
      new_shape.push_back(shape()[other]);
      new_strides.push_back(strides()[other]);
    }
  }
  return recorded("unsqueeze", *this, impl_->view(0, new_shape, new_strides),
                  [where](const Tensor& d_view) { return d_view.squeeze(where); });
}

Tensor Tensor::squeeze(int dim) const {
  const int which = checked_dim("squeeze", dim, rank());
  check(shape()[which] == 1, "squeeze: dimension ", dim, " of ", *this, " has size ", shape()[which], ", expected 1");
  return select(which, 0);
}

Tensor Tensor::expand(const Shape& wanted) const {
  const int added = wanted.rank() - rank();
  check(added >= 0, "expand: ", *this, " has more dimensions than shape ", wanted);
  Shape new_strides = Shape::filled(wanted.rank(), 0);
  for (int dim = 0; dim < rank(); ++dim) {
    const bool same = shape()[dim] == wanted[dim + added];
    check(same || shape()[dim] == 1, "expand: ", *this, " does not broadcast to shape ", wanted);
    new_strides[dim + added] = same ? strides()[dim] : 0;
  }
  return recorded("expand", *this, impl_->view(0, wanted, new_strides),
                  [original = shape()](const Tensor& d_view) { return internal::sum_to(d_view, original); });
}

Tensor Tensor::reshape(const Shape& wanted) const {
  const Shape resolved = resolve_shape("reshape", *this, wanted);
  if (const auto new_strides = view_strides(*this, resolved)) {
    return recorded("reshape", *this, impl_->view(0, resolved, *new_strides),
                    [original = shape()](const Tensor& d_view) { return d_view.reshape(original); });
  }
  return clone().view(resolved);
}

Tensor Tensor::view(const Shape& wanted) const {
  const Shape resolved = resolve_shape("view", *this, wanted);
  const auto new_strides = view_strides(*this, resolved);
  check(new_strides.has_value(), "view: ", *this, " with strides ", strides(), " has no view of shape ", wanted);
  return recorded("view", *this, impl_->view(0, resolved, *new_strides),
                  [original = shape()](const Tensor& d_view) { return d_view.reshape(original); });
}

}  // namespace headway::inline v0

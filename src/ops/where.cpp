// where(), and logical operations on booleans, which are computed by the same selection.
#include <algorithm>

#include "base/check.h"
#include "headway/ops.h"
#include "ops/choice.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {

Tensor choose(const Tensor& mask, const TensorOrNumber& a, const TensorOrNumber& b, const Shape& shape, DType dtype) {
  Tensor result = Tensor::empty(shape, dtype, mask.device());
  const auto whole = [&](const Tensor& x) {
    if (!x.defined() || x.element_count() == result.element_count()) return dense(x);
    return x.detach().expand(shape).contiguous();
  };
  const Tensor whole_mask = whole(mask), whole_a = whole(a.tensor), whole_b = whole(b.tensor);
  backend_of(mask).select({.dtype = dtype,
                           .count = result.element_count(),
                           .mask = bytes_of(whole_mask),
                           .a = whole_a.defined() ? bytes_of(whole_a) : nullptr,
                           .b = whole_b.defined() ? bytes_of(whole_b) : nullptr,
                           .a_number = a.number,
                           .b_number = b.number,
                           .result = bytes_of(result)});
  return result;
}

namespace {

// The shape to which the mask and the tensors broadcast; throws where they do not, or are not what where() takes.
Shape chosen_shape(const char* name, const Tensor& mask, const Tensor& a, const Tensor& b) {
  check(mask.defined(), name, ": mask is undefined, expected a tensor");
  check(mask.dtype() == DType::boolean, name, ": mask is ", mask, ", expected bool");
  const Tensor& one = a.defined() ? a : b;
  check(one.defined(), name, ": a and b are undefined, expected tensors");
  check_same_device(name, "mask", mask, a.defined() ? "a" : "b", one);
  const Shape shape = a.defined() && b.defined() ? broadcast_shape_of_any(name, a, b) : one.shape();
  const int rank = std::max(shape.rank(), mask.rank());
  Shape joined = Shape::filled(rank, 1);
  for (int dim = 1; dim <= rank; ++dim) {
    const std::int64_t size = dim <= shape.rank() ? shape[-dim] : 1;
    const std::int64_t from_mask = dim <= mask.rank() ? mask.shape()[-dim] : 1;
    check(size == from_mask || size == 1 || from_mask == 1, name, ": mask is ", mask, " and ", one,
          " came, whose shapes do not broadcast");
    joined[-dim] = size == 1 ? from_mask : size;
  }
  return joined;
}

Tensor where_of(const Tensor& mask, const TensorOrNumber& a, const TensorOrNumber& b) {
  const Shape shape = chosen_shape("where", mask, a.tensor, b.tensor);
  const DType dtype = (a.tensor.defined() ? a.tensor : b.tensor).dtype();
  Tensor result = choose(mask, a, b, shape, dtype);
  if (needs_gradient(a.tensor, b.tensor)) {
    const auto shape_of = [](const Tensor& x) { return x.defined() ? x.shape() : Shape(); };
    record(
        "where", {a.tensor, b.tensor}, {result},
        [kept = Saved("where", mask), a_shape = shape_of(a.tensor), b_shape = shape_of(b.tensor)](BackwardCall& call) {
          const Tensor d = take_dense(call.d_outputs[0]);
          Tensors gradients(2);
          if (call.wants(0)) {
            gradients[0] = broadcast_sum(choose(kept.get(), {.tensor = d}, {}, d.shape(), d.dtype()), a_shape);
          }
          if (call.wants(1)) {
            gradients[1] = broadcast_sum(choose(kept.get(), {}, {.tensor = d}, d.shape(), d.dtype()), b_shape);
          }
          return gradients;
        });
  }
  return result;
}

void check_boolean(const char* function, const char* argument, const Tensor& x) {
  check(x.defined(), function, ": ", argument, " is undefined, expected a tensor");
  check(x.dtype() == DType::boolean, function, ": ", argument, " is ", x, ", expected bool");
}

// The shape of two booleans that meet.
Shape boolean_shape(const char* function, const Tensor& a, const Tensor& b) {
  check_boolean(function, "a", a);
  check_boolean(function, "b", b);
  return broadcast_shape_of_any(function, a, b);
}

}  // namespace
}  // namespace internal

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  internal::check(a.defined() && b.defined(), "where: ", a.defined() ? "b" : "a", " is undefined, expected a tensor");
  return internal::where_of(mask, {.tensor = a}, {.tensor = b});
}

Tensor where(const Tensor& mask, const Tensor& a, double b) {
  internal::check(a.defined(), "where: a is undefined, expected a tensor");
  return internal::where_of(mask, {.tensor = a}, {.number = b});
}

Tensor where(const Tensor& mask, double a, const Tensor& b) {
  internal::check(b.defined(), "where: b is undefined, expected a tensor");
  return internal::where_of(mask, {.number = a}, {.tensor = b});
}

Tensor logical_not(const Tensor& x) {
  internal::check_boolean("logical_not", "x", x);
  return eq(x, 0.0);
}

Tensor logical_and(const Tensor& a, const Tensor& b) {
  const Shape shape = internal::boolean_shape("logical_and", a, b);
  return internal::choose(a, {.tensor = b}, {.number = 0}, shape, DType::boolean);
}

Tensor logical_or(const Tensor& a, const Tensor& b) {
  const Shape shape = internal::boolean_shape("logical_or", a, b);
  return internal::choose(a, {.number = 1}, {.tensor = b}, shape, DType::boolean);
}

}  // namespace headway::inline v0

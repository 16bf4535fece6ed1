// Shapes, memory and sums for elementwise operations.
#include "ops/elementwise.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "core/tensor_impl.h"

namespace headway::inline v0::internal {
namespace {

// Rows shorter than this are repeated in memory first, since the loops work on vectors.
constexpr std::int64_t kShortestRow = 32;

// Whether `shape` without leading ones is the end of `whole`, so that a dense tensor of it repeats over the rows.
bool is_row_of(const Shape& shape, const Shape& whole) {
  int leading = 0;
  while (leading < shape.rank() && shape[leading] == 1) ++leading;
  if (shape.rank() - leading > whole.rank()) return false;
  for (int dim = -1; dim >= leading - shape.rank(); --dim) {
    if (shape[dim] != whole[dim]) return false;
  }
  return true;
}

}  // namespace

void check_floating(const char* function, const char* argument, const Tensor& x) {
  check(x.defined(), function, ": ", argument, " is undefined, expected a tensor");
  check(is_floating(x.dtype()), function, ": ", argument, " is ", x, ", expected a floating dtype");
}

Shape broadcast_shape(const char* function, const Tensor& a, const Tensor& b) {
  check_floating(function, "a", a);
  check_floating(function, "b", b);
  return broadcast_shape_of_any(function, a, b);
}

Shape broadcast_shape_of_any(const char* function, const Tensor& a, const Tensor& b) {
  check(a.defined(), function, ": a is undefined, expected a tensor");
  check(b.defined(), function, ": b is undefined, expected a tensor");
  check(a.dtype() == b.dtype(), function, ": a is ", a, " and b is ", b, ", expected one dtype");
  check_same_device(function, "a", a, "b", b);
  const int rank = std::max(a.rank(), b.rank());
  Shape shape = Shape::filled(rank, 1);
  for (int dim = 1; dim <= rank; ++dim) {
    const std::int64_t from_a = dim <= a.rank() ? a.shape()[-dim] : 1;
    const std::int64_t from_b = dim <= b.rank() ? b.shape()[-dim] : 1;
    check(from_a == from_b || from_a == 1 || from_b == 1, function, ": a is ", a, " and b is ", b,
          ", whose shapes do not broadcast");
    shape[-dim] = from_a == 1 ? from_b : from_a;
  }
  return shape;
}

RowOperands row_operands(const Tensor& a, const Tensor& b, const Shape& shape, std::int64_t count) {
  const auto repeats = [&](const Tensor& x, const Tensor& other) {
    return x.element_count() < count && x.element_count() >= kShortestRow && other.element_count() == count &&
           is_row_of(x.shape(), shape);
  };
  const bool a_repeats = repeats(a, b), b_repeats = repeats(b, a);
  const auto operand = [&](const Tensor& x, bool is_row) {
    if (is_row || x.element_count() == count) return dense(x);
    return x.detach().expand(shape).contiguous();
  };
  RowOperands operands;
  operands.a = operand(a, a_repeats);
  operands.b = operand(b, b_repeats);
  operands.columns = a_repeats ? a.element_count() : b_repeats ? b.element_count() : count;
  operands.rows = count / operands.columns;
  operands.a_row_stride = a_repeats ? 0 : operands.columns;
  operands.b_row_stride = b_repeats ? 0 : operands.columns;
  return operands;
}

void combine(Binary operation, const Tensor& a, const Tensor& b, const Tensor& result) {
  if (result.element_count() == 0) return;
  const RowOperands operands = row_operands(a, b, result.shape(), result.element_count());
  backend_of(result).binary(row_task<BinaryTask>(operation, result.dtype(), operands, result));
}

Tensor combined(const char* function, Binary operation, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(function, a, b);  // first: undefined tensors have no dtype
  Tensor result = Tensor::empty(shape, a.dtype(), a.device());
  combine(operation, a, b, result);
  return result;
}

Tensor broadcast_sum(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  Tensor sums = Tensor::empty(shape, x.dtype(), x.device());
  const std::int64_t columns = sums.element_count();
  if (!x.is_contiguous() || columns < kShortestRow || !is_row_of(shape, x.shape())) {
    return sum_to(x, shape);
  }
  backend_of(x).column_sums({.dtype = x.dtype(),
                             .rows = x.element_count() / columns,
                             .columns = columns,
                             .x = bytes_of(x),
                             .sums = bytes_of(sums),
                             .sums_dtype = x.dtype()});
  return sums;
}

void map_into(Unary operation, const Tensor& x, double number, const Tensor& result) {
  const Tensor whole = dense(x);
  backend_of(x).unary({.operation = operation,
                       .dtype = x.dtype(),
                       .count = x.element_count(),
                       .x = bytes_of(whole),
                       .result = bytes_of(result),
                       .number = number});
}

void scale_into(const Tensor& x, double factor, const Tensor& result) {
  const Tensor whole = dense(x);
  backend_of(x).scale({.dtype = x.dtype(),
                       .count = x.element_count(),
                       .x = bytes_of(whole),
                       .result = bytes_of(result),
                       .factor = factor});
}

void lerp_into(const Tensor& target, const Tensor& source, double share) {
  constexpr const char* kName = "lerp_into";
  check_floating(kName, "target", target);
  check(source.defined() && source.shape() == target.shape() && source.dtype() == target.dtype(), kName, ": source is ",
        source, ", expected ", target.dtype(), target.shape());
  check_same_device(kName, "target", target, "source", source);
  check(target.is_contiguous() && source.is_contiguous(), kName, ": target or source has gaps, expected none");
  backend_of(target).lerp({.dtype = target.dtype(),
                           .count = target.element_count(),
                           .source = bytes_of(source),
                           .target = bytes_of(target),
                           .share = share});
  bump_version(target);
}

}  // namespace headway::inline v0::internal

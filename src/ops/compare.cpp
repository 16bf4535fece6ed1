// Comparisons: booleans from tensors of any dtype. They have no gradient.
#include "base/check.h"
#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway::inline v0 {
namespace internal {
namespace {

Tensor compare(const char* name, Comparison operation, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape_of_any(name, a, b);  // first: undefined tensors have no device
  Tensor result = Tensor::empty(shape, DType::boolean, a.device());
  if (result.element_count() == 0) return result;
  const RowOperands operands = row_operands(a, b, shape, result.element_count());
  backend_of(a).compare(row_task<CompareTask>(operation, a.dtype(), operands, result));
  return result;
}

Tensor compare(const char* name, Comparison operation, const Tensor& x, double number) {
  check(x.defined(), name, ": x is undefined, expected a tensor");
  Tensor result = Tensor::empty(x.shape(), DType::boolean, x.device());
  const Tensor whole = dense(x);
  backend_of(x).compare({.operation = operation,
                         .dtype = x.dtype(),
                         .columns = x.element_count(),
                         .a = bytes_of(whole),
                         .number = number,
                         .result = bytes_of(result)});
  return result;
}

}  // namespace
}  // namespace internal

using internal::Comparison;

Tensor eq(const Tensor& a, const Tensor& b) { return internal::compare("eq", Comparison::equal, a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return internal::compare("ne", Comparison::not_equal, a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return internal::compare("lt", Comparison::less, a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return internal::compare("le", Comparison::less_equal, a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return internal::compare("gt", Comparison::greater, a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return internal::compare("ge", Comparison::greater_equal, a, b); }

Tensor eq(const Tensor& x, double number) { return internal::compare("eq", Comparison::equal, x, number); }
Tensor ne(const Tensor& x, double number) { return internal::compare("ne", Comparison::not_equal, x, number); }
Tensor lt(const Tensor& x, double number) { return internal::compare("lt", Comparison::less, x, number); }
Tensor le(const Tensor& x, double number) { return internal::compare("le", Comparison::less_equal, x, number); }
Tensor gt(const Tensor& x, double number) { return internal::compare("gt", Comparison::greater, x, number); }
Tensor ge(const Tensor& x, double number) { return internal::compare("ge", Comparison::greater_equal, x, number); }

}  // namespace headway::inline v0

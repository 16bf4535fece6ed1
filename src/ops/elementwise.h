// What elementwise operations and their gradients share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/registry.h"
#include "base/internal_api.h"
#include "core/random.h"
#include "headway/tensor.h"
#include "ops/checks.h"
#include "ops/dense.h"

namespace headway::inline v0::internal {

// Throws unless x is a floating tensor.
void check_floating(const char* function, const char* argument, const Tensor& x);

inline std::byte* bytes_of(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

// The shape to which a and b broadcast; throws where they do not, or where they are not of one floating dtype.
Shape broadcast_shape(const char* function, const Tensor& a, const Tensor& b);

// The same for tensors of any one dtype.
Shape broadcast_shape_of_any(const char* function, const Tensor& a, const Tensor& b);

// Two operands in dense memory as rows of a result: whole ones, and at most one row that repeats.
struct RowOperands {
  Tensor a, b;
  std::int64_t rows = 1;
  std::int64_t columns = 0;
  std::int64_t a_row_stride = 0;  // in elements; 0: one row for all
  std::int64_t b_row_stride = 0;  // likewise
};
// The operands of a result of `shape`, which has elements.
RowOperands row_operands(const Tensor& a, const Tensor& b, const Shape& shape, std::int64_t count);

// A backend's task on rows. The operands have to live until it is done.
template <typename Task, typename Operation>
Task row_task(Operation operation, DType dtype, const RowOperands& operands, const Tensor& result) {
  Task task;
  task.operation = operation;
  task.dtype = dtype;
  task.rows = operands.rows;
  task.columns = operands.columns;
  task.a = bytes_of(operands.a);
  task.a_row_stride = operands.a_row_stride;
  task.b = bytes_of(operands.b);
  task.b_row_stride = operands.b_row_stride;
  task.result = bytes_of(result);
  return task;
}

// result = a op b without a record. The result is dense, has the shape to which a and b broadcast, and may be the
// memory of one of them that has this shape too.
void combine(Binary operation, const Tensor& a, const Tensor& b, const Tensor& result);

// a op b in new memory, without a record; throws where broadcast_shape() does.
Tensor combined(const char* function, Binary operation, const Tensor& a, const Tensor& b);

// sum_to(), with a faster way for sums over leading dimensions. x itself where its shape is wanted.
Tensor broadcast_sum(const Tensor& x, const Shape& shape);

// The rule of dropout; throws where the probability is out of range.
ElementDropout checked_dropout(const char* function, double probability, std::uint64_t seed);

// function(x) into `result` (dense, of the same shape and dtype; may be x), without a record.
void map_into(Unary operation, const Tensor& x, double number, const Tensor& result);

// x * factor into `result` (dense, of the same shape and dtype; may be x), without a record.
void scale_into(const Tensor& x, double factor, const Tensor& result);

// target += (source - target) * share, in place and without a record. Both are dense, of one shape and floating dtype.
HEADWAY_INTERNAL_API void lerp_into(const Tensor& target, const Tensor& source, double share);

}  // namespace headway::inline v0::internal

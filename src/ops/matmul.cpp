// matmul(): the product of the last two dimensions, and its two gradients.
#include <algorithm>

#include "base/check.h"
#include "core/autograd.h"
#include "headway/ops.h"
#include "ops/product.h"

namespace headway::inline v0 {
namespace internal {
namespace {

// The sizes in front of the last two, broadcast against each other.
Shape broadcast_batch(const Tensor& a, const Tensor& b) {
  const int rank = std::max(a.rank(), b.rank()) - 2;
  Shape batch = Shape::filled(rank, 1);
  for (int i = 1; i <= rank; ++i) {
    const std::int64_t from_a = i + 2 <= a.rank() ? a.size(-i - 2) : 1;
    const std::int64_t from_b = i + 2 <= b.rank() ? b.size(-i - 2) : 1;
    check(from_a == from_b || from_a == 1 || from_b == 1, "matmul: a is ", a, " and b is ", b,
          ", whose leading dimensions do not broadcast");
    batch[-i] = from_a == 1 ? from_b : from_a;
  }
  return batch;
}

Shape with_matrix(Shape batch, std::int64_t rows, std::int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

// All matrices of a tensor, under each other.
Tensor stacked(const Tensor& tensor) { return tensor.reshape({-1, tensor.size(-1)}); }

// The gradient of b in a b, for a gradient d of the result.
Tensor product_of_transposed(const Tensor& a, const Tensor& d, const Tensor& b) {
  if (b.rank() == 2 && a.rank() > 2 && a.element_count() > 0 && d.element_count() > 0) {
    return product(stacked(a).transpose(0, 1), stacked(d));
  }
  return sum_to(product(a.transpose(-1, -2), d), b.shape());
}

}  // namespace

Matrix matrix_of(const Tensor& tensor) {
  return {.data = static_cast<std::byte*>(tensor.raw_data()),
          .row_stride = tensor.stride(-2),
          .column_stride = tensor.stride(-1),
          .batch_stride = tensor.rank() == 3 ? tensor.stride(0) : 0,
          .dtype = tensor.dtype()};
}

void product_into(const Tensor& a, const Tensor& b, const Tensor& result, bool accumulate) {
  MatmulProblem problem = {.rows = a.size(0), .columns = b.size(1), .depth = a.size(1)};
  problem.a = matrix_of(a);
  problem.b = matrix_of(b);
  problem.result = matrix_of(result);
  problem.accumulate = accumulate;
  backend_of(result).matmul(problem);
}

Tensor product(const Tensor& a, const Tensor& b) {
  const Shape batch = broadcast_batch(a, b);
  const std::int64_t rows = a.size(-2), depth = a.size(-1), columns = b.size(-1);
  Tensor result = Tensor::empty(with_matrix(batch, rows, columns), a.dtype(), a.device());
  if (result.element_count() == 0) return result;
  MatmulProblem problem = {.rows = rows, .columns = columns, .depth = depth};
  if (b.rank() == 2 && depth > 0) {  // one b for all: the rows of all a are one matrix
    const Tensor all_rows = stacked(a);
    problem.rows = all_rows.size(0);
    problem.a = matrix_of(all_rows);
    problem.b = matrix_of(b);
    problem.result = matrix_of(result.view({problem.rows, columns}));
    backend_of(result).matmul(problem);
    return result;
  }
  problem.batch = 1;
  for (const std::int64_t size : batch) problem.batch *= size;
  const Tensor every_a = a.expand(with_matrix(batch, rows, depth)).reshape({problem.batch, rows, depth});
  const Tensor every_b = b.expand(with_matrix(batch, depth, columns)).reshape({problem.batch, depth, columns});
  problem.a = matrix_of(every_a);
  problem.b = matrix_of(every_b);
  problem.result = matrix_of(result.view({problem.batch, rows, columns}));
  backend_of(result).matmul(problem);
  return result;
}

}  // namespace internal

Tensor matmul(const Tensor& a, const Tensor& b) {
  using internal::check;
  check(a.defined() && b.defined(), "matmul: a is ", a, " and b is ", b, ", expected two tensors");
  check(a.rank() > 0 && b.rank() > 0, "matmul: a is ", a, " and b is ", b, ", expected at least one dimension in each");
  check(is_floating(a.dtype()) && a.dtype() == b.dtype(), "matmul: a is ", a, " and b is ", b,
        ", expected one floating dtype");
  internal::check_same_device("matmul", "a", a, "b", b);
  if (a.rank() == 1) return matmul(a.unsqueeze(0), b).squeeze(b.rank() == 1 ? 0 : -2);
  if (b.rank() == 1) return matmul(a, b.unsqueeze(1)).squeeze(-1);
  check(a.size(-1) == b.size(-2), "matmul: a is ", a, " and b is ", b, ": a's last size is ", a.size(-1),
        ", b's last but one is ", b.size(-2));
  const bool recorded = internal::needs_gradient(a, b);
  const NoGradGuard guard;
  Tensor result = internal::product(a, b);
  if (recorded) {
    internal::record("matmul", {a, b}, {result},
                     [saved_a = internal::Saved("matmul", a),
                      saved_b = internal::Saved("matmul", b)](internal::BackwardCall& call) -> internal::Tensors {
                       const Tensor& x = saved_a.get();
                       const Tensor& y = saved_b.get();
                       const Tensor& d = call.d_output();
                       Tensor d_a, d_b;
                       if (call.wants(0)) {
                         d_a = internal::sum_to(internal::product(d, y.transpose(-1, -2)), x.shape());
                       }
                       if (call.wants(1)) d_b = internal::product_of_transposed(x, d, y);
                       return {d_a, d_b};
                     });
  }
  return result;
}

}  // namespace headway::inline v0

// Matrix products: cuBLASLt multiplies what it can read, a pass of our own adds what it cannot do.
#include <algorithm>
#include <optional>
#include <utility>

#include "cuda/activation.cuh"
#include "cuda/backend.h"
#include "cuda/cublas.h"
#include "cuda/element.cuh"
#include "cuda/launch.h"

namespace headway::inline v0::internal::cuda {
namespace {

// ---- kernels ----

// A batch of matrices of T; data null: none.
template <typename T>
struct View {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
  std::int64_t batch_stride = 0;

  __device__ T& at(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    return data[batch * batch_stride + row * row_stride + column * column_stride];
  }
};

template <typename T>
View<T> view_of(const Matrix& matrix) {
  return {reinterpret_cast<T*>(matrix.data), matrix.row_stride, matrix.column_stride, matrix.batch_stride};
}

template <typename T>
struct FinishCall {
  std::int64_t batch;
  std::int64_t rows;
  std::int64_t columns;
  View<const Compute<T>> sums;  // (batch, rows, columns); none: zeros
  const T* bias;                // (columns); null: zeros
  Activation activation;
  View<T> before;  // (batch, rows, columns): the values before the activation; none: not wanted
  View<T> result;  // (batch, rows, columns); may be the sums
  bool accumulate;
};

// result = activation(sums + bias), or result += sums. Threads along x have columns, along y rows of all matrices.
template <typename T>
__global__ void finish_kernel(FinishCall<T> call) {
  using Real = Compute<T>;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (column >= call.columns) return;
  const Real bias = call.bias ? to_compute(call.bias[column]) : Real(0);
  const std::int64_t all_rows = call.batch * call.rows, step = static_cast<std::int64_t>(gridDim.y) * blockDim.y;
  for (std::int64_t r = static_cast<std::int64_t>(blockIdx.y) * blockDim.y + threadIdx.y; r < all_rows; r += step) {
    const std::int64_t batch = call.batch == 1 ? 0 : r / call.rows, row = r - batch * call.rows;
    Real value = bias;
    if (call.sums.data) value += call.sums.at(batch, row, column);
    if (call.accumulate) value += to_compute(call.result.at(batch, row, column));
    if (call.before.data) call.before.at(batch, row, column) = from_compute<T>(value);
    call.result.at(batch, row, column) = from_compute<T>(activated(call.activation, value));
  }
}

constexpr int kTile = 16;

// result = a b, for what cuBLASLt has no algorithm. A block of (kTile, kTile) threads has one tile of the result at a
// time.
template <typename T>
__global__ void product_kernel(std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                               View<const T> a, View<const T> b, View<Compute<T>> result) {
  using Real = Compute<T>;
  __shared__ Real a_tile[kTile][kTile + 1], b_tile[kTile][kTile + 1];
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const std::int64_t across = (columns + kTile - 1) / kTile, down = (rows + kTile - 1) / kTile;
  for (std::int64_t tile = blockIdx.x; tile < batch * down * across; tile += gridDim.x) {
    const std::int64_t item = tile / (down * across);
    const std::int64_t row = tile / across % down * kTile + y, column = tile % across * kTile + x;
    Real sum = 0;
    for (std::int64_t k = 0; k < depth; k += kTile) {
      a_tile[y][x] = row < rows && k + x < depth ? to_compute(a.at(item, row, k + x)) : Real(0);
      b_tile[y][x] = k + y < depth && column < columns ? to_compute(b.at(item, k + y, column)) : Real(0);
      __syncthreads();
#pragma unroll
      for (int i = 0; i < kTile; ++i) sum += a_tile[y][i] * b_tile[i][x];
      __syncthreads();
    }
    if (row < rows && column < columns) result.at(item, row, column) = sum;
  }
}

// ---- calls of them ----

// The problem's result from the sums; `sums.data` null: zeros.
void finish(const MatmulProblem& p, const Matrix& sums) {
  check(!p.before_activation.data || p.before_activation.dtype == p.result.dtype, "cuda: matmul: before_activation is ",
        p.before_activation.dtype, ", expected the result's ", p.result.dtype);
  dispatch_elements(p.result.dtype, [&]<typename T>() {
    constexpr std::int64_t kColumns = 64, kRows = 4, kRowsOfThread = 4, kMostBlocks = 65535;
    const FinishCall<T> call = {p.batch,
                                p.rows,
                                p.columns,
                                view_of<const Compute<T>>(sums),
                                reinterpret_cast<const T*>(p.bias),
                                p.activation,
                                view_of<T>(p.before_activation),
                                view_of<T>(p.result),
                                p.accumulate};
    const std::int64_t down = (p.batch * p.rows + kRows * kRowsOfThread - 1) / (kRows * kRowsOfThread);
    const dim3 grid(static_cast<unsigned>((p.columns + kColumns - 1) / kColumns),
                    static_cast<unsigned>(std::min(down, kMostBlocks)));
    finish_kernel<T><<<grid, dim3(kColumns, kRows), 0, current_stream()>>>(call);
    check_launch("finish_kernel");
  });
}

// a b by our own kernel, into a result of what sums are computed in.
void own_product(const MatmulProblem& p) {
  dispatch_elements(p.a.dtype, [&]<typename T>() {
    const std::int64_t tiles = p.batch * ((p.rows + kTile - 1) / kTile) * ((p.columns + kTile - 1) / kTile);
    product_kernel<T><<<grid_for(tiles, 1), dim3(kTile, kTile), 0, current_stream()>>>(
        p.batch, p.rows, p.columns, p.depth, view_of<const T>(p.a), view_of<const T>(p.b),
        view_of<Compute<T>>(p.result));
    check_launch("product_kernel");
  });
}

// ---- products by cuBLASLt ----

Matrix transposed(Matrix m) {
  std::swap(m.row_stride, m.column_stride);
  return m;
}

// Whether matrices (rows, columns) are stored by columns that do not overlap.
bool is_by_columns(const Matrix& m, std::int64_t rows, std::int64_t columns) {
  return (m.row_stride == 1 || rows == 1) && (m.column_stride >= rows || columns == 1);
}
std::int64_t leading_of(const Matrix& m, std::int64_t rows, std::int64_t columns) {
  return columns == 1 ? rows : m.column_stride;
}

// Matrices (rows, columns) as cuBLASLt reads them; none where it cannot. A vector is taken along its elements.
std::optional<LtMatrix> lt_matrix(const Matrix& m, std::int64_t rows, std::int64_t columns) {
  const bool by_columns = is_by_columns(m, rows, columns), by_rows = is_by_columns(transposed(m), columns, rows);
  if (by_columns && (!by_rows || rows >= columns)) {
    return LtMatrix{m.data, leading_of(m, rows, columns), m.batch_stride, false};
  }
  if (by_rows) return LtMatrix{m.data, leading_of(transposed(m), columns, rows), m.batch_stride, true};
  return std::nullopt;
}

// Matrices of rows of `columns` elements, one after the other.
Matrix dense_matrix(void* data, std::int64_t columns, std::int64_t batch_stride, DType dtype) {
  return {static_cast<std::byte*>(data), columns, 1, batch_stride, dtype};
}

// A copy in `buffer` of matrices (batch, rows, columns) that cuBLASLt cannot read; others stay as they are.
Matrix readable(const Matrix& m, std::int64_t batch, std::int64_t rows, std::int64_t columns, DeviceBuffer& buffer) {
  if (lt_matrix(m, rows, columns)) return m;
  const std::int64_t copies = m.batch_stride == 0 ? 1 : batch;
  buffer = DeviceBuffer(static_cast<std::size_t>(copies * rows * columns) * item_size(m.dtype));
  copy_strided({.data = buffer.as<void>(), .strides = {rows * columns, columns, 1}, .dtype = m.dtype},
               {.data = m.data, .strides = {m.batch_stride, m.row_stride, m.column_stride}, .dtype = m.dtype},
               {copies, rows, columns});
  return dense_matrix(buffer.as<void>(), columns, m.batch_stride == 0 ? 0 : rows * columns, m.dtype);
}

// How the result is stored, as cuBLASLt may write it.
enum class ResultOrder { by_rows, by_columns, neither };
ResultOrder order_of(const MatmulProblem& p) {
  if (is_by_columns(transposed(p.result), p.columns, p.rows)) return ResultOrder::by_rows;
  return is_by_columns(p.result, p.rows, p.columns) ? ResultOrder::by_columns : ResultOrder::neither;
}

// The matrix `count` further on in its batch.
const void* further(const LtMatrix& matrix, std::int64_t count, DType dtype) {
  return static_cast<const std::byte*>(matrix.data) +
         count * matrix.batch_stride * static_cast<std::int64_t>(item_size(dtype));
}

// Whether cuBLASLt has the problem's activation, and keeps what comes before it where it has to. Its GELU is not exact
// to more than the digits of bfloat16.
bool has_activation(const MatmulProblem& p) {
  if (p.activation != Activation::gelu_tanh) {
    return !p.before_activation.data && (p.activation == Activation::none || p.activation == Activation::relu);
  }
  if (p.batch != 1 || p.result.dtype != DType::bfloat16 || order_of(p) != ResultOrder::by_rows) return false;
  const Matrix& before = p.before_activation;
  return !before.data || (before.dtype == p.result.dtype && before.column_stride == 1 && before.row_stride % 8 == 0 &&
                          before.row_stride >= p.columns && reinterpret_cast<std::uintptr_t>(before.data) % 16 == 0);
}

// The whole problem by cuBLASLt, of an activation that it has; false where it cannot. A result by rows is computed as
// its transposed, which is by columns: result^T = b^T a^T.
bool library_product(const MatmulProblem& p) {
  const ResultOrder order = order_of(p);
  const bool by_rows = order == ResultOrder::by_rows, relu = p.activation == Activation::relu;
  if (order == ResultOrder::neither || (p.bias && !by_rows)) return false;
  if ((p.bias || relu) && p.result.dtype == DType::float64) return false;
  const auto left = by_rows ? lt_matrix(transposed(p.b), p.columns, p.depth) : lt_matrix(p.a, p.rows, p.depth);
  const auto right = by_rows ? lt_matrix(transposed(p.a), p.depth, p.rows) : lt_matrix(p.b, p.depth, p.columns);
  if (!left || !right) return false;
  LtProduct product = {.dtype = p.a.dtype,
                       .result_dtype = p.result.dtype,
                       .m = by_rows ? p.columns : p.rows,
                       .n = by_rows ? p.rows : p.columns,
                       .k = p.depth,
                       .left = *left,
                       .right = *right,
                       .result_batch_stride = p.result.batch_stride,
                       .bias = p.bias,
                       .relu = relu,
                       .gelu_tanh = p.activation == Activation::gelu_tanh,
                       .before = p.before_activation.data,
                       .before_leading = p.before_activation.row_stride,
                       .accumulate = p.accumulate};
  product.result_leading = leading_of(by_rows ? transposed(p.result) : p.result, product.m, product.n);
  constexpr std::int64_t kMostMatrices = 1 << 15;  // at once: grids have 65535 blocks in that direction
  for (std::int64_t first = 0; first < p.batch; first += kMostMatrices) {
    product.batch = std::min(kMostMatrices, p.batch - first);
    product.left.data = further(*left, first, p.a.dtype);
    product.right.data = further(*right, first, p.b.dtype);
    product.result =
        p.result.data + first * p.result.batch_stride * static_cast<std::int64_t>(item_size(p.result.dtype));
    // Only the first may be refused: the caller could not take back what has been added up.
    if (!lt_product(product)) {
      check(first == 0, "cuda: cublasLtMatmul has no algorithm for the last ", product.batch, " matrices of a batch");
      return false;
    }
  }
  return true;
}

}  // namespace

// a and b have one floating dtype; the result has it too, or float32 for 16-bit ones. Sums are float64 for float64,
// else float32, and rounded once. An empty depth gives activation(bias).
void CudaBackend::matmul(const MatmulProblem& problem) {
  const OnGpu here = on_gpu();
  if (problem.batch == 0 || problem.rows == 0 || problem.columns == 0) return;
  MatmulProblem p = with_merged_batch(problem);
  if (p.depth == 0) {
    if (!p.accumulate) finish(p, {});
    return;
  }
  DeviceBuffer a_copy, b_copy;
  p.a = readable(p.a, p.batch, p.rows, p.depth, a_copy);
  p.b = readable(p.b, p.batch, p.depth, p.columns, b_copy);
  if (has_activation(p) && library_product(p)) return;

  // The sums first, in the result where it can hold them.
  const DType sums_dtype = p.a.dtype == DType::float64 ? DType::float64 : DType::float32;
  MatmulProblem sums = {.batch = p.batch, .rows = p.rows, .columns = p.columns, .depth = p.depth, .a = p.a, .b = p.b};
  DeviceBuffer buffer;  // (batch, rows, columns)
  if (p.result.dtype == sums_dtype && !p.accumulate && order_of(p) != ResultOrder::neither) {
    sums.result = p.result;
  } else {
    const std::int64_t size = p.rows * p.columns;
    buffer = DeviceBuffer(static_cast<std::size_t>(p.batch * size) * item_size(sums_dtype));
    sums.result = dense_matrix(buffer.as<void>(), p.columns, size, sums_dtype);
  }
  if (!library_product(sums)) own_product(sums);
  finish(p, sums.result);
}

}  // namespace headway::inline v0::internal::cuda

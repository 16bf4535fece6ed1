// Matrix products for tests: operands of any order in memory, and a plain triple loop in float64 to compare with.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "core/convert.h"
#include "core/dispatch.h"
#include "support/cases.h"

namespace headway_test {

using headway::Activation;
using headway::DType;
using headway::internal::convert;
using headway::internal::dispatch_floating;
using headway::internal::MatmulProblem;
using headway::internal::Matrix;

inline void matmul(const MatmulProblem& problem) {
  headway::internal::backend_of(headway::Device::cpu()).matmul(problem);
}

// The order of a matrix in memory.
enum class Order { rows, columns, padded_rows, padded_columns, scattered };
inline constexpr Order kOrders[] = {Order::rows, Order::columns, Order::padded_rows, Order::padded_columns,
                                    Order::scattered};

inline constexpr Activation kActivations[] = {Activation::none,      Activation::relu,      Activation::gelu,
                                              Activation::gelu_tanh, Activation::silu,      Activation::tanh,
                                              Activation::sigmoid,   Activation::quick_gelu};

inline constexpr double kGuard = -123.5;  // exact in every dtype

// A batch of matrices in memory of its own, with guards all around.
class Storage {
 public:
  Storage(std::int64_t batch, std::int64_t rows, std::int64_t columns, Order order, DType dtype);
  Storage(const Storage&) = delete;

  const Matrix& matrix() const { return matrix_; }
  // The first matrix for every entry of the batch.
  void repeat() { matrix_.batch_stride = 0; }

  void fill(std::mt19937& random);
  double get(std::int64_t b, std::int64_t r, std::int64_t c) const { return take(index(b, r, c)); }
  void set(std::int64_t b, std::int64_t r, std::int64_t c, double value) { put(index(b, r, c), value); }

  // The number of elements outside the matrices that have changed.
  std::int64_t broken_guards() const;
  const std::vector<std::byte>& bytes() const { return bytes_; }

  template <typename Body>
  void for_each(const Body& body) const {
    for (std::int64_t b = 0; b < batch_; ++b) {
      for (std::int64_t r = 0; r < rows_; ++r) {
        for (std::int64_t c = 0; c < columns_; ++c) body(b, r, c);
      }
    }
  }

 private:
  static constexpr std::int64_t kMargin = 67;

  std::int64_t index(std::int64_t b, std::int64_t r, std::int64_t c) const {
    return kMargin + b * matrix_.batch_stride + r * matrix_.row_stride + c * matrix_.column_stride;
  }
  double take(std::int64_t i) const {
    return dispatch_floating(
        matrix_.dtype, [&]<typename T>() { return convert<double>(reinterpret_cast<const T*>(bytes_.data())[i]); });
  }
  void put(std::int64_t i, double value) {
    dispatch_floating(matrix_.dtype, [&]<typename T>() { reinterpret_cast<T*>(bytes_.data())[i] = convert<T>(value); });
  }

  std::int64_t batch_, rows_, columns_, count_ = 0;
  Matrix matrix_;
  std::vector<std::byte> bytes_;
};

// One product.
struct MatmulCase {
  std::int64_t rows = 1, columns = 1, depth = 1, batch = 1;
  DType dtype = DType::float32;
  DType result_dtype = DType::float32;
  Order a = Order::rows, b = Order::rows, result = Order::rows, before = Order::rows;
  bool repeats_a = false, repeats_b = false;
  bool bias = false;
  Activation activation = Activation::none;
  bool keeps_before = false;
  bool accumulate = false;

  std::string name() const {
    const auto number = [](auto value) { return std::to_string(static_cast<long long>(value)) + " "; };
    return number(rows) + "x " + number(columns) + "x " + number(depth) + "batch " + number(batch) +
           std::string(dtype_name(dtype)) + " to " + std::string(dtype_name(result_dtype)) + " orders " + number(a) +
           number(b) + number(result) + "repeats " + number(repeats_a) + number(repeats_b) + "bias " + number(bias) +
           "activation " + number(activation) + "before " + number(keeps_before) + "accumulate " + number(accumulate);
  }
};

// The tensors of one case, filled.
struct Tensors {
  Storage a, b, result, before, bias;

  explicit Tensors(const MatmulCase& c)
      : a(c.batch, c.rows, c.depth, c.a, c.dtype),
        b(c.batch, c.depth, c.columns, c.b, c.dtype),
        result(c.batch, c.rows, c.columns, c.result, c.result_dtype),
        before(c.keeps_before ? c.batch : 0, c.rows, c.columns, c.before, c.result_dtype),
        bias(1, 1, c.columns, Order::rows, c.result_dtype) {
    std::mt19937 random(static_cast<unsigned>(c.rows * 7919 + c.columns * 104729 + c.depth));
    if (c.repeats_a) a.repeat();
    if (c.repeats_b) b.repeat();
    a.fill(random);
    b.fill(random);
    bias.fill(random);
    if (c.accumulate) result.fill(random);
  }
  MatmulProblem problem(const MatmulCase& c) const {
    return {.batch = c.batch,
            .rows = c.rows,
            .columns = c.columns,
            .depth = c.depth,
            .a = a.matrix(),
            .b = b.matrix(),
            .result = result.matrix(),
            .bias = c.bias ? bias.matrix().data : nullptr,
            .activation = c.activation,
            .before_activation = c.keeps_before ? before.matrix() : Matrix{},
            .accumulate = c.accumulate};
  }
};

// Under sanitizers and emulators: one case in seven, and none of the largest.
bool is_left_out(const MatmulCase& c);

// Computes the case and compares every element, and the memory around it.
void expect_right(const MatmulCase& c);

}  // namespace headway_test

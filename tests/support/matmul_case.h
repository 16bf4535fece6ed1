// Matrix products for tests: operands of any order in memory, and a plain triple loop in float64 to compare with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/convert.h"
#include "core/dispatch.h"
#include "cpu/matmul.h"
#include "support/cases.h"

namespace headway_test {

using headway::Activation;
using headway::DType;
using headway::internal::convert;
using headway::internal::dispatch_floating;
using headway::internal::MatmulProblem;
using headway::internal::cpu::matmul;
using headway::internal::Matrix;

// The order of a matrix in memory.
enum class Order { rows, columns, padded_rows, padded_columns, scattered };
inline constexpr Order kOrders[] = {Order::rows, Order::columns, Order::padded_rows, Order::padded_columns,
                                    Order::scattered};

inline constexpr Activation kActivations[] = {Activation::none,      Activation::relu, Activation::gelu,
                                              Activation::gelu_tanh, Activation::silu, Activation::tanh,
                                              Activation::sigmoid};

inline constexpr double kGuard = -123.5;  // exact in every dtype

// A batch of matrices in memory of its own, with guards all around.
class Storage {
 public:
  Storage(std::int64_t batch, std::int64_t rows, std::int64_t columns, Order order, DType dtype)
      : batch_(batch), rows_(rows), columns_(columns) {
    matrix_.dtype = dtype;
    const bool by_rows = order == Order::rows || order == Order::padded_rows;
    const std::int64_t step = order == Order::scattered ? 3 : 1;
    const std::int64_t gap = order == Order::rows || order == Order::columns ? 0 : 5;
    matrix_.column_stride = by_rows ? 1 : rows * step + gap;
    matrix_.row_stride = by_rows ? columns + gap : step;
    const std::int64_t size = by_rows ? rows * matrix_.row_stride : columns * matrix_.column_stride;
    matrix_.batch_stride = size + gap;
    count_ = kMargin + batch * matrix_.batch_stride + kMargin;
    bytes_.resize(static_cast<std::size_t>(count_) * item_size(dtype));
    for (std::int64_t i = 0; i < count_; ++i) put(i, kGuard);
    matrix_.data = bytes_.data() + kMargin * item_size(dtype);
  }
  Storage(const Storage&) = delete;

  const Matrix& matrix() const { return matrix_; }
  // The first matrix for every entry of the batch.
  void repeat() { matrix_.batch_stride = 0; }

  void fill(std::mt19937& random) {
    std::normal_distribution<float> normal;
    for_each([&](std::int64_t b, std::int64_t r, std::int64_t c) { set(b, r, c, normal(random)); });
  }
  double get(std::int64_t b, std::int64_t r, std::int64_t c) const { return take(index(b, r, c)); }
  void set(std::int64_t b, std::int64_t r, std::int64_t c, double value) { put(index(b, r, c), value); }

  // The number of elements outside the matrices that are no longer as they were.
  std::int64_t broken_guards() const {
    std::vector<bool> inside(static_cast<std::size_t>(count_));
    for_each([&](std::int64_t b, std::int64_t r, std::int64_t c) {
      inside[static_cast<std::size_t>(index(b, r, c))] = true;
    });
    std::int64_t broken = 0;
    for (std::int64_t i = 0; i < count_; ++i) broken += !inside[static_cast<std::size_t>(i)] && take(i) != kGuard;
    return broken;
  }
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

inline double activation_of(double x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x / (1 + std::exp(-x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
  }
  return x;
}

inline double epsilon_of(DType dtype) {
  switch (dtype) {
    case DType::float64:
      return 0x1p-52;
    case DType::bfloat16:
      return 0x1p-8;
    case DType::float16:
      return 0x1p-11;
    default:
      return 0x1p-23;
  }
}

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
        before(c.batch, c.rows, c.columns, c.before, c.result_dtype),
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
inline bool is_left_out(const MatmulCase& c) {
  static int count = 0;
  return reduced() && (count++ % 7 != 0 || c.batch * c.rows * c.columns * c.depth > (std::int64_t{1} << 21));
}

// Computes the case and compares every element, and the memory around it.
inline void expect_right(const MatmulCase& c) {
  if (is_left_out(c)) return;
  Tensors t(c);
  // (batch, rows, depth) and (batch, columns, depth)
  std::vector<double> a, b;
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t i = 0; i < c.rows; ++i) {
      for (std::int64_t k = 0; k < c.depth; ++k) a.push_back(t.a.get(n, i, k));
    }
    for (std::int64_t j = 0; j < c.columns; ++j) {
      for (std::int64_t k = 0; k < c.depth; ++k) b.push_back(t.b.get(n, k, j));
    }
  }
  std::vector<double> sums, scales;  // a b + bias, and the sum of the magnitudes
  t.result.for_each([&](std::int64_t n, std::int64_t i, std::int64_t j) {
    double sum = c.bias ? t.bias.get(0, 0, j) : 0;
    if (c.accumulate) sum += t.result.get(n, i, j);
    double scale = std::abs(sum);
    const double* row = a.data() + (n * c.rows + i) * c.depth;
    const double* column = b.data() + (n * c.columns + j) * c.depth;
    for (std::int64_t k = 0; k < c.depth; ++k) {
      sum += row[k] * column[k];
      scale += std::abs(row[k] * column[k]);
    }
    sums.push_back(sum);
    scales.push_back(scale);
  });
  matmul(t.problem(c));

  const double sum_epsilon = epsilon_of(c.dtype == DType::float64 ? DType::float64 : DType::float32);
  const double result_epsilon = epsilon_of(c.result_dtype);
  std::size_t element = 0;
  std::int64_t wrong = 0;
  const auto far = [&](double value, double expected, double scale) {
    const double allowed = 8 * sum_epsilon * scale + result_epsilon * std::abs(expected) + 16 * sum_epsilon;
    return !(std::abs(value - expected) <= allowed);
  };
  t.result.for_each([&](std::int64_t n, std::int64_t i, std::int64_t j) {
    const double sum = sums[element], scale = scales[element++];
    const double expected = activation_of(sum, c.activation);
    if (far(t.result.get(n, i, j), expected, scale) && wrong++ == 0) {
      ADD_FAILURE() << c.name() << ": (" << n << ", " << i << ", " << j << ") is " << t.result.get(n, i, j)
                    << ", expected " << expected;
    }
    if (c.keeps_before && far(t.before.get(n, i, j), sum, scale) && wrong++ == 0) {
      ADD_FAILURE() << c.name() << ": before the activation, (" << n << ", " << i << ", " << j << ") is "
                    << t.before.get(n, i, j) << ", expected " << sum;
    }
  });
  EXPECT_EQ(wrong, 0) << c.name();
  EXPECT_EQ(t.result.broken_guards(), 0) << c.name();
  EXPECT_EQ(t.before.broken_guards(), 0) << c.name();
}

}  // namespace headway_test

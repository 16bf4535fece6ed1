#include "support/matmul_case.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/epsilon.h"

namespace headway_test {
namespace {

double activation_of(double x, Activation activation) {
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
    case Activation::quick_gelu:
      return x / (1 + std::exp(-1.702 * x));
  }
  return x;
}

// What rounding to a 16-bit type loses; other results also carry the error of their sums.
double rounding_of(DType dtype) { return epsilon_of(dtype) * (is_sixteen_bit(dtype) ? 0.5 : 1); }

// What a case sums up: a b + bias, and the sum of the magnitudes, each (batch, rows, columns).
struct Sums {
  MatmulCase of = {};
  std::vector<double> values = {}, scales = {};
};

// Whether the tensors of two cases hold the same numbers, in whatever order.
bool same_numbers(const MatmulCase& x, const MatmulCase& y) {
  return x.rows == y.rows && x.columns == y.columns && x.depth == y.depth && x.batch == y.batch && x.dtype == y.dtype &&
         x.result_dtype == y.result_dtype && x.repeats_a == y.repeats_a && x.repeats_b == y.repeats_b &&
         x.bias == y.bias && x.accumulate == y.accumulate;
}

// The plain loops, whose innermost one goes along a row of b, so that the compiler makes vectors of it.
Sums sum_up(const MatmulCase& c, const Tensors& t) {
  Sums sums = {.of = c};
  std::vector<double> b(static_cast<std::size_t>(c.depth * c.columns));  // of one entry
  for (std::int64_t n = 0; n < c.batch; ++n) {
    for (std::int64_t k = 0; k < c.depth; ++k) {
      for (std::int64_t j = 0; j < c.columns; ++j) b[static_cast<std::size_t>(k * c.columns + j)] = t.b.get(n, k, j);
    }
    for (std::int64_t i = 0; i < c.rows; ++i) {
      const std::size_t first = sums.values.size();
      for (std::int64_t j = 0; j < c.columns; ++j) {
        const double sum = (c.bias ? t.bias.get(0, 0, j) : 0) + (c.accumulate ? t.result.get(n, i, j) : 0);
        sums.values.push_back(sum);
        sums.scales.push_back(std::abs(sum));
      }
      double *values = sums.values.data() + first, *scales = sums.scales.data() + first;
      for (std::int64_t k = 0; k < c.depth; ++k) {
        const double factor = t.a.get(n, i, k);
        const double* row = b.data() + k * c.columns;
        for (std::int64_t j = 0; j < c.columns; ++j) {
          values[j] += factor * row[j];
          scales[j] += std::abs(factor * row[j]);
        }
      }
    }
  }
  return sums;
}

}  // namespace

Storage::Storage(std::int64_t batch, std::int64_t rows, std::int64_t columns, Order order, DType dtype)
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

void Storage::fill(std::mt19937& random) {
  std::uniform_real_distribution<float> values(-1.75f, 1.75f);
  for_each([&](std::int64_t b, std::int64_t r, std::int64_t c) { set(b, r, c, values(random)); });
}

std::int64_t Storage::broken_guards() const {
  std::vector<bool> inside(static_cast<std::size_t>(count_));
  for_each(
      [&](std::int64_t b, std::int64_t r, std::int64_t c) { inside[static_cast<std::size_t>(index(b, r, c))] = true; });
  std::int64_t broken = 0;
  for (std::int64_t i = 0; i < count_; ++i) broken += !inside[static_cast<std::size_t>(i)] && take(i) != kGuard;
  return broken;
}

bool is_left_out(const MatmulCase& c) {
  static int count = 0;
  return reduced() && (count++ % 7 != 0 || c.batch * c.rows * c.columns * c.depth > (std::int64_t{1} << 21));
}

void expect_right(const MatmulCase& c) {
  if (is_left_out(c)) return;
  Tensors t(c);
  static Sums sums;  // of the case before this one, which often differs in the order of its matrices alone
  if (sums.values.empty() || !same_numbers(sums.of, c)) sums = sum_up(c, t);
  matmul(t.problem(c));

  const double sum_epsilon = rounding_of(c.dtype == DType::float64 ? DType::float64 : DType::float32);
  const double result_epsilon = rounding_of(c.result_dtype);
  std::size_t element = 0;
  std::int64_t wrong = 0;
  const auto far = [&](double value, double expected, double scale) {
    const double allowed = 8 * sum_epsilon * scale + result_epsilon * std::abs(expected) + 16 * sum_epsilon;
    return !(std::abs(value - expected) <= allowed);
  };
  t.result.for_each([&](std::int64_t n, std::int64_t i, std::int64_t j) {
    const double sum = sums.values[element], scale = sums.scales[element++];
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

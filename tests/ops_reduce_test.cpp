// sum and mean; sums of columns and the gradient of an activation, which linear() uses.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backend/registry.h"
#include "headway/ops.h"
#include "support/bits.h"
#include "support/cases.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::Activation;

headway::internal::Backend& backend() { return headway::internal::backend_of(headway::Device::cpu()); }

// The sum over some dimensions, by walking over all elements.
std::vector<double> sum_reference(const Tensor& x, const std::vector<int>& dims) {
  std::vector<bool> summed(static_cast<std::size_t>(x.rank()));
  for (const int dim : dims) summed[static_cast<std::size_t>(dim < 0 ? dim + x.rank() : dim)] = true;
  std::int64_t results = 1;
  for (int dim = 0; dim < x.rank(); ++dim) results *= summed[static_cast<std::size_t>(dim)] ? 1 : x.size(dim);
  std::vector<long double> sums(static_cast<std::size_t>(results));
  const std::vector<double> values = x.to_vector();
  for (std::size_t e = 0; e < values.size(); ++e) {
    std::int64_t rest = static_cast<std::int64_t>(e), place = 0, step = 1;
    for (int dim = x.rank() - 1; dim >= 0; --dim) {
      const std::int64_t index = rest % x.size(dim);
      rest /= x.size(dim);
      if (summed[static_cast<std::size_t>(dim)]) continue;
      place += index * step;
      step *= x.size(dim);
    }
    sums[static_cast<std::size_t>(place)] += values[e];
  }
  return std::vector<double>(sums.begin(), sums.end());
}

struct ReduceCase {
  Shape shape;
  std::vector<int> dims;
  Shape reduced, kept;
};
const std::vector<ReduceCase> kReduceCases = {
    {{5}, {0}, {}, {1}},
    {{2, 3, 4}, {1}, {2, 4}, {2, 1, 4}},
    {{2, 3, 4}, {-1}, {2, 3}, {2, 3, 1}},
    {{2, 3, 4}, {0, 2}, {3}, {1, 3, 1}},
    {{2, 3, 4}, {2, 1, 0}, {}, {1, 1, 1}},
    {{2, 3, 4}, {}, {2, 3, 4}, {2, 3, 4}},
    {{1, 4}, {0}, {4}, {1, 4}},
    {{0, 3}, {0}, {3}, {1, 3}},
    {{3, 0}, {0}, {0}, {1, 0}},
    {{70, 130}, {0}, {130}, {1, 130}},
};

TEST(Sum, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const ReduceCase& c : kReduceCases) {
      const Tensor x = Tensor::randn(c.shape, 1, dtype);
      const std::vector<double> sums = sum_reference(x, c.dims);
      for (const Tensor& view : layouts_of(x)) {
        const Tensor reduced = headway::sum(view, c.dims), kept = headway::sum(view, c.dims, true);
        ASSERT_EQ(reduced.shape(), c.reduced);
        ASSERT_EQ(kept.shape(), c.kept);
        EXPECT_TRUE(close_to(reduced, sums, 4, 8));
        EXPECT_TRUE(close_to(kept, sums, 4, 8));
      }
    }
  }
}

TEST(Mean, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const ReduceCase& c : kReduceCases) {
      const Tensor x = Tensor::randn(c.shape, 1, dtype);
      std::vector<double> means = sum_reference(x, c.dims);
      if (means.empty()) continue;
      for (double& value : means) value *= static_cast<double>(means.size()) / static_cast<double>(x.element_count());
      if (x.element_count() == 0) means.assign(means.size(), std::nan(""));
      EXPECT_TRUE(close_to(headway::mean(x, c.dims), means, 4, 1)) << x.describe();
      EXPECT_EQ(headway::mean(x, c.dims, true).shape(), c.kept);
    }
  }
}

TEST(Sum, OfEverything) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {7, 9}, {100003}}) {
      const Tensor x = Tensor::uniform(shape, 0, 0.5, 1, dtype);
      const double total = sum_reference(x.reshape({-1}), {0})[0];
      EXPECT_EQ(headway::sum(x).shape(), Shape{});
      EXPECT_TRUE(close_to(headway::sum(x), {total}, 4));
      EXPECT_TRUE(close_to(headway::mean(x), {total / static_cast<double>(x.element_count())}, 6));
    }
    EXPECT_EQ(headway::sum(Tensor::zeros({0, 3}, dtype)).item(), 0.0);
    EXPECT_TRUE(std::isnan(headway::mean(Tensor::zeros({0, 3}, dtype)).item()));
  }
}

TEST(Mean, OfHalvesDoesNotOverflow) {
  EXPECT_EQ(headway::mean(Tensor::full({1000}, 60000.0, DType::float16)).item(), 60000.0);
}

TEST(Sum, ResultsShareNoMemory) {
  const Tensor x = Tensor::full({1, 4}, 2.0);
  Tensor y = headway::sum(x, {0}), z = headway::mean(x, {0});
  y.fill(7);
  z.fill(7);
  EXPECT_EQ(x.to_vector(), std::vector<double>(4, 2.0));
}

TEST(Sum, Gradients) {
  for (const ReduceCase& c : kReduceCases) {
    for (const Tensor& x : awkward(c.shape, 1)) {
      SCOPED_TRACE(x.describe());
      for (const bool keep : {false, true}) {
        check_gradients([&](const Inputs& in) { return headway::sum(in[0], c.dims, keep); }, {x}, {.elements = 8});
        if (x.element_count() == 0) continue;  // a mean of nothing is NaN
        check_gradients([&](const Inputs& in) { return headway::mean(in[0], c.dims, keep); }, {x}, {.elements = 8});
      }
    }
  }
  for (const Shape& shape : std::vector<Shape>{{}, {7}, {3, 4}}) {
    for (const Tensor& x : awkward(shape, 2)) {
      check_gradients([](const Inputs& in) { return headway::sum(in[0]); }, {x});
      check_gradients([](const Inputs& in) { return headway::mean(in[0]); }, {x});
    }
  }
}

TEST(Sum, Errors) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(message_of([&] { headway::sum(x, {2}); }), "sum: dimension 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { headway::mean(x, {0, -2}); }), "mean: dimension -2 comes twice");
  EXPECT_EQ(message_of([&] { headway::sum(x.to(DType::int32)); }), "sum: x is int32[2, 3], expected a floating dtype");
  EXPECT_EQ(message_of([&] { headway::mean(Tensor()); }), "mean: x is undefined, expected a tensor");
}

// ---- what linear() uses ----

std::byte* bytes(const Tensor& tensor) { return static_cast<std::byte*>(tensor.raw_data()); }

const std::vector<Shape> kMatrices = {{0, 5},   {5, 0},    {1, 1},      {7, 3},    {8, 16},   {9, 17},
                                      {64, 40}, {129, 33}, {130, 1100}, {513, 64}, {20, 2500}};

Tensor column_sums(const Tensor& x, DType result_dtype) {
  Tensor sums = Tensor::full({x.size(1)}, 7.0, result_dtype);
  backend().column_sums({.dtype = x.dtype(),
                         .rows = x.size(0),
                         .columns = x.size(1),
                         .x = bytes(x),
                         .sums = bytes(sums),
                         .sums_dtype = result_dtype});
  return sums;
}

TEST(ColumnSums, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : kMatrices) {
      const Tensor x = Tensor::uniform(shape, 0, 1, 1, dtype);
      const std::vector<double> expected = sum_reference(x, {0});
      EXPECT_TRUE(close_to(column_sums(x, dtype), expected, 4)) << x.describe();
      if (dtype == DType::bfloat16) {
        EXPECT_TRUE(close_to(column_sums(x, DType::float32), expected, 4)) << x.describe();
      }
    }
  }
}

TEST(ColumnSums, SameBitsWhateverTheThreads) {
  std::vector<Tensor> first;
  with_threads([&](int threads) {
    std::vector<Tensor> results;
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      results.push_back(column_sums(Tensor::randn({1000, 1500}, 1, dtype), DType::float32));
    }
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i], first[i])) << threads << " threads";
    }
  });
}

TEST(ActivationBackward, AgreesWithActivateInPlaceAndWithSums) {
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh,
        Activation::sigmoid, Activation::quick_gelu}) {
    for (const DType dtype : test_dtypes()) {
      for (const Shape& shape : kMatrices) {
        Tensor x = Tensor::randn(shape, 1, dtype);
        const Tensor d_after = Tensor::uniform(shape, 0.5, 1, 2, dtype);
        x.set_requires_grad();
        const Tensor after = headway::activate(x, activation);
        after.backward(d_after);
        const Tensor kept = headway::internal::slope_from_output(activation) ? after : x;
        const Tensor d_before = d_after.clone(), sums = Tensor::full({shape[1]}, 7.0, dtype);
        backend().activation_backward({.activation = activation,
                                       .dtype = dtype,
                                       .rows = shape[0],
                                       .columns = shape[1],
                                       .d_after = bytes(d_before),
                                       .saved = bytes(kept),
                                       .d_before = bytes(d_before),
                                       .sums = bytes(sums),
                                       .sums_dtype = dtype});
        ASSERT_TRUE(same_bits(d_before, x.grad())) << x.describe() << " activation " << static_cast<int>(activation);
        // A sum of float32 blocks in the dtype of the gradient.
        const double slack = dtype == DType::bfloat16 || dtype == DType::float16 ? 8 : 4;
        ASSERT_TRUE(close_to(sums, sum_reference(d_before, {0}), slack, std::sqrt(static_cast<double>(shape[0] + 1))))
            << x.describe() << " activation " << static_cast<int>(activation);
      }
    }
  }
}

}  // namespace
}  // namespace headway_test

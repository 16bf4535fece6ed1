// add, sub, mul, scale, activations and concat: values against plain loops, gradients against differences.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "support/bits.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::Activation;

const std::vector<BinaryCase> kBinaries = {
    {"add", headway::add, [](double a, double b) { return a + b; }},
    {"sub", headway::sub, [](double a, double b) { return a - b; }},
    {"mul", headway::mul, [](double a, double b) { return a * b; }},
};

const std::vector<Shapes> kShapes = {
    {{}, {}, {}},
    {{1}, {}, {1}},
    {{5}, {5}, {5}},
    {{37}, {}, {37}},
    {{3, 70}, {70}, {3, 70}},
    {{70}, {3, 70}, {3, 70}},
    {{5, 33}, {1, 33}, {5, 33}},
    {{2, 3, 40}, {3, 40}, {2, 3, 40}},
    {{2, 3, 40}, {2, 1, 40}, {2, 3, 40}},
    {{2, 3, 4}, {4}, {2, 3, 4}},
    {{4, 1}, {1, 5}, {4, 5}},
    {{4, 1, 64}, {3, 1}, {4, 3, 64}},
    {{0, 3}, {3}, {0, 3}},
    {{3, 0}, {1}, {3, 0}},
    {{0, 64}, {64}, {0, 64}},
    {{1, 1, 6}, {2, 6}, {1, 2, 6}},
};

TEST(Binary, ValuesOfAllShapesAndLayouts) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shapes& shapes : kShapes) {
      const Tensor a = Tensor::randn(shapes.a, 1, dtype), b = Tensor::randn(shapes.b, 2, dtype);
      for (const BinaryCase& c : kBinaries) {
        ASSERT_NO_FATAL_FAILURE(expect_values_in_all_layouts(c, a, b, shapes.result));
      }
    }
  }
}

TEST(Binary, LongOnes) {
  for (const DType dtype : kFloatingDTypes) {
    for (const auto& [a_shape, b_shape] : std::vector<std::pair<Shape, Shape>>{
             {{50001}, {50001}}, {{130, 301}, {301}}, {{301}, {130, 301}}, {{3, 20000}, {20000}}}) {
      const Tensor a = Tensor::randn(a_shape, 1, dtype), b = Tensor::randn(b_shape, 2, dtype);
      const Shape& shape = a_shape.rank() >= b_shape.rank() ? a_shape : b_shape;
      for (const BinaryCase& c : kBinaries) {
        const std::vector<double> expected = pairwise(c.reference, a, b, shape);
        EXPECT_TRUE(close_to(c.operation(a, b), expected)) << c.name << " " << a.describe() << " " << b.describe();
      }
    }
  }
}

TEST(Binary, Gradients) {
  for (const BinaryCase& c : kBinaries) {
    const auto function = [&](const Inputs& in) { return c.operation(in[0], in[1]); };
    for (const Shapes& shapes : kShapes) {
      for (const Tensor& a : awkward(shapes.a, 3)) {
        for (const Tensor& b : awkward(shapes.b, 4)) {
          SCOPED_TRACE(std::string(c.name) + " " + a.describe() + " " + b.describe());
          check_gradients(function, {a, b}, {.elements = 8});
        }
      }
    }
  }
}

TEST(Binary, GradientsOfOneTensorTwice) {
  for (const BinaryCase& c : kBinaries) {
    check_gradients([&](const Inputs& in) { return c.operation(in[0], in[0]); },
                    {Tensor::randn({3, 5}, 1, DType::float64)});
  }
}

TEST(Binary, OperatorsAreTheFunctions) {
  const Tensor a = Tensor::randn({3, 4}, 1), b = Tensor::randn({4}, 2);
  EXPECT_TRUE(same_bits(a + b, headway::add(a, b)));
  EXPECT_TRUE(same_bits(a - b, headway::sub(a, b)));
  EXPECT_TRUE(same_bits(a * b, headway::mul(a, b)));
  EXPECT_TRUE(same_bits(a * 0.3, headway::scale(a, 0.3)));
  EXPECT_TRUE(same_bits(0.3 * a, headway::scale(a, 0.3)));
}

TEST(Binary, Errors) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({2, 4});
  EXPECT_EQ(message_of([&] { headway::add(a, b); }),
            "add: a is float32[2, 3] and b is float32[2, 4], whose shapes do not broadcast");
  EXPECT_EQ(message_of([&] { headway::mul(a, a.to(DType::bfloat16)); }),
            "mul: a is float32[2, 3] and b is bfloat16[2, 3], expected one dtype");
  EXPECT_EQ(message_of([&] { headway::sub(a, a.to(DType::int32)); }),
            "sub: b is int32[2, 3], expected a floating dtype");
  EXPECT_EQ(message_of([&] { headway::add(Tensor(), a); }), "add: a is undefined, expected a tensor");
}

TEST(Binary, AChangeOfWhatIsKeptIsNoticed) {
  Tensor a = Tensor::randn({4}, 1), b = Tensor::randn({4}, 2);
  a.set_requires_grad();
  const Tensor product = headway::sum(headway::mul(a, b)), added = headway::sum(headway::add(a, b));
  b.fill(1);
  EXPECT_EQ(message_of([&] { product.backward(); }),
            "mul: a tensor saved for the backward pass, float32[4], was changed in place since");
  added.backward();
  EXPECT_EQ(a.grad().to_vector(), std::vector<double>(4, 1.0));
}

TEST(Scale, ValuesAndGradients) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {17}, {3, 5}, {0, 4}, {70001}}) {
      const Tensor x = Tensor::randn(shape, 1, dtype);
      std::vector<double> expected = x.to_vector();
      for (double& value : expected) value *= -0.75;
      for (const Tensor& view : layouts_of(x)) EXPECT_TRUE(close_to(headway::scale(view, -0.75), expected));
    }
  }
  for (const Shape& shape : std::vector<Shape>{{}, {7}, {3, 5}, {0, 4}}) {
    for (const Tensor& x : awkward(shape, 2)) {
      check_gradients([](const Inputs& in) { return headway::scale(in[0], -1.3); }, {x});
    }
  }
  EXPECT_EQ(message_of([] { headway::scale(Tensor::zeros({2}, DType::int64), 2); }),
            "scale: x is int64[2], expected a floating dtype");
}

// ---- activations ----

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double gelu_tanh_reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct ActivationCase {
  Activation activation;
  double (*reference)(double);
};
const std::vector<ActivationCase> kActivations = {
    {Activation::none, [](double x) { return x; }},
    {Activation::relu, [](double x) { return std::isnan(x) ? x : std::max(x, 0.0); }},
    {Activation::gelu, [](double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }},
    {Activation::gelu_tanh, gelu_tanh_reference},
    {Activation::silu, [](double x) { return x / (1 + std::exp(-x)); }},
    {Activation::tanh, [](double x) { return std::tanh(x); }},
    {Activation::sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
    {Activation::quick_gelu, [](double x) { return x / (1 + std::exp(-1.702 * x)); }},
};

TEST(Activate, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {3}, {15}, {16}, {17}, {5, 9}, {0, 3}, {2, 0}, {40003}}) {
      const Tensor x = headway::scale(Tensor::randn(shape, 1, dtype), 2.0);
      for (const ActivationCase& c : kActivations) {
        std::vector<double> expected = x.to_vector();
        for (double& value : expected) value = c.reference(value);
        for (const Tensor& view : layouts_of(x)) {
          const Tensor result = headway::activate(view, c.activation);
          ASSERT_EQ(result.shape(), shape);
          // Far out on the left the tails of gelu magnify the rounding of their exponent.
          ASSERT_TRUE(close_to(result, expected, 8, 0.1)) << "activation " << static_cast<int>(c.activation);
        }
      }
    }
  }
}

TEST(Activate, NamedFunctions) {
  const Tensor x = Tensor::randn({33}, 1);
  EXPECT_TRUE(same_bits(headway::relu(x), headway::activate(x, Activation::relu)));
  EXPECT_TRUE(same_bits(headway::gelu(x), headway::activate(x, Activation::gelu)));
  EXPECT_TRUE(same_bits(headway::gelu(x, headway::Gelu::tanh), headway::activate(x, Activation::gelu_tanh)));
  EXPECT_TRUE(same_bits(headway::silu(x), headway::activate(x, Activation::silu)));
  EXPECT_TRUE(same_bits(headway::tanh(x), headway::activate(x, Activation::tanh)));
  EXPECT_TRUE(same_bits(headway::sigmoid(x), headway::activate(x, Activation::sigmoid)));
  EXPECT_EQ(message_of([&] { headway::gelu(x.to(DType::int32)); }), "gelu: x is int32[33], expected a floating dtype");
}

TEST(Activate, NanAndInfinity) {
  const Tensor x = Tensor::from<double>({std::nan(""), kInfinity, -kInfinity, 0.0}, {4});
  for (const DType dtype : kFloatingDTypes) {
    const Tensor v = x.to(dtype);
    EXPECT_TRUE(close_to(headway::relu(v), {std::nan(""), kInfinity, 0, 0}));
    EXPECT_TRUE(close_to(headway::tanh(v), {std::nan(""), 1, -1, 0}));
    EXPECT_TRUE(close_to(headway::sigmoid(v), {std::nan(""), 1, 0, 0.5}));
    EXPECT_EQ(headway::gelu(v).at({1}), kInfinity);
    EXPECT_TRUE(std::isnan(headway::silu(v).at({0})));
  }
}

TEST(Activate, Gradients) {
  for (const ActivationCase& c : kActivations) {
    const auto function = [&](const Inputs& in) { return headway::activate(in[0], c.activation); };
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {7}, {3, 19}, {2, 3, 4}, {0, 3}}) {
      for (const Tensor& x : awkward(shape, 5)) {
        if (c.activation == Activation::none) continue;  // the tensor itself
        SCOPED_TRACE("activation " + std::to_string(static_cast<int>(c.activation)) + " " + x.describe());
        check_gradients(function, {x});
      }
    }
  }
}

TEST(Activate, GradientsOfLowerPrecision) {
  for (const ActivationCase& c : kActivations) {
    for (const DType dtype : kFloatingDTypes) {
      const auto gradient_in = [&](DType wanted) {
        Tensor x = headway::scale(Tensor::randn({3, 117}, 6, dtype), 2.0).to(wanted);
        x.set_requires_grad();
        headway::activate(x, c.activation).backward(Tensor::randn({3, 117}, 7, dtype).to(wanted));
        return x.grad();
      };
      // Slopes that come from the rounded output are off by as much as the output was.
      EXPECT_TRUE(close_to(gradient_in(dtype), gradient_in(DType::float64).to_vector(), 40, 0.5))
          << "activation " << static_cast<int>(c.activation);
    }
  }
}

TEST(Activate, ReluKeepsOnlyItsOutput) {
  Tensor x = Tensor::from<float>({-1, 2, 0}, {3});
  x.set_requires_grad();
  const Tensor y = headway::relu(x), z = headway::gelu(x);
  {
    const headway::NoGradGuard guard;
    x.fill(5);
  }
  y.backward(Tensor::from<float>({INFINITY, 3, 4}, {3}));
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{0, 3, 0}));
  EXPECT_NE(message_of([&] { z.backward(Tensor::zeros({3})); }), "no error");
}

// ---- concat ----

TEST(Concat, JoinsAllDTypesAlongAllDimensions) {
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::int64, DType::boolean}) {
    const Tensor a = Tensor::full({2, 3, 4}, 1, dtype), b = Tensor::full({2, 3, 4}, 0, dtype);
    for (int dim = -3; dim < 3; ++dim) {
      const Tensor both = headway::concat({a, b, a.slice(dim, 0, 1)}, dim);
      Shape shape = a.shape();
      shape[dim] = 2 * shape[dim] + 1;
      ASSERT_EQ(both.shape(), shape);
      EXPECT_TRUE(same_bits(both.slice(dim, 0, a.size(dim)), a));
      EXPECT_TRUE(same_bits(both.slice(dim, a.size(dim), 2 * a.size(dim)), b));
      EXPECT_TRUE(same_bits(both.slice(dim, 2 * a.size(dim), shape[dim]), a.slice(dim, 0, 1)));
    }
  }
}

TEST(Concat, Gradients) {
  const auto along = [](int dim) { return [dim](const Inputs& in) { return headway::concat(in, dim); }; };
  for (const Tensor& a : awkward({2, 3}, 1)) {
    for (const Tensor& b : awkward({2, 3}, 2)) {
      check_gradients(along(0), {a, b, a});
      check_gradients(along(-1), {a, b});
    }
  }
  check_gradients(along(1), {Tensor::randn({2, 0}, 1, DType::float64), Tensor::randn({2, 4}, 2, DType::float64)});
  check_gradients(along(0), {Tensor::randn({3}, 1, DType::float64)});
}

TEST(Concat, Errors) {
  const Tensor a = Tensor::zeros({2, 3});
  EXPECT_EQ(message_of([&] { headway::concat({}); }), "concat: there are no tensors, expected at least one");
  EXPECT_EQ(message_of([&] {
              headway::concat({a, Tensor::zeros({2, 4})}, 0);
            }),
            "concat: tensor 1 is float32[2, 4], which does not fit to the first, float32[2, 3], along dimension 0");
  EXPECT_EQ(message_of([&] {
              headway::concat({a, a.to(DType::float64)}, 1);
            }),
            "concat: tensor 1 is float64[2, 3], which does not fit to the first, float32[2, 3], along dimension 1");
  EXPECT_EQ(message_of([&] { headway::concat({a, a}, 2); }), "concat: dimension 2 is out of range for 2 dimensions");
  EXPECT_EQ(message_of([&] { headway::concat({a, Tensor()}, 0); }), "concat: tensor 1 is undefined");
}

// ---- threads ----

TEST(Pointwise, SameBitsWhateverTheThreads) {
  std::vector<Tensor> first;
  with_threads([&](int threads) {
    std::vector<Tensor> results;
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      Tensor x = Tensor::randn({211, 700}, 1, dtype), y = Tensor::randn({211, 700}, 2, dtype);
      Tensor row = Tensor::randn({700}, 3, dtype);
      for (Tensor* leaf : {&x, &y, &row}) leaf->set_requires_grad();
      const Tensor mixed = headway::mul(headway::add(headway::gelu(x), row), headway::sub(headway::relu(y), row));
      mixed.backward(Tensor::randn({211, 700}, 4, dtype));
      for (const Tensor& result : {mixed, x.grad(), y.grad(), row.grad()}) results.push_back(result);
    }
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i], first[i])) << threads << " threads, result " << i;
    }
  });
}

}  // namespace
}  // namespace headway_test

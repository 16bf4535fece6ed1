// matmul() and linear(): shapes, numbers and gradients.
#include <gtest/gtest.h>

#include "headway/ops.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace {

using headway::Activation;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using headway_test::awkward;
using headway_test::check_gradients;
using headway_test::contains;
using headway_test::message_of;

using Inputs = std::vector<Tensor>;

Tensor random(const Shape& shape, std::uint64_t seed = 1) { return Tensor::randn(shape, seed, DType::float64); }

// One matrix product by its definition.
Tensor plain(const Tensor& a, const Tensor& b) {
  Tensor c = Tensor::zeros({a.size(0), b.size(1)}, DType::float64);
  double* to = c.data<double>();
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < b.size(1); ++j, ++to) {
      for (std::int64_t k = 0; k < a.size(1); ++k) *to += a.at({i, k}) * b.at({k, j});
    }
  }
  return c;
}

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const std::vector<double> a = actual.to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

TEST(Matmul, ShapesFollowNumPy) {
  const auto shape = [](const Shape& a, const Shape& b) {
    return matmul(Tensor::zeros(a), Tensor::zeros(b)).shape().to_string();
  };
  EXPECT_EQ(shape({2, 3}, {3, 4}), "[2, 4]");
  EXPECT_EQ(shape({3}, {3}), "[]");
  EXPECT_EQ(shape({3}, {3, 4}), "[4]");
  EXPECT_EQ(shape({2, 3}, {3}), "[2]");
  EXPECT_EQ(shape({5, 2, 3}, {3, 4}), "[5, 2, 4]");
  EXPECT_EQ(shape({2, 3}, {5, 3, 4}), "[5, 2, 4]");
  EXPECT_EQ(shape({5, 1, 2, 3}, {6, 3, 4}), "[5, 6, 2, 4]");
  EXPECT_EQ(shape({5, 2, 3}, {3}), "[5, 2]");
  EXPECT_EQ(shape({0, 3}, {3, 4}), "[0, 4]");
  EXPECT_EQ(shape({2, 0}, {0, 4}), "[2, 4]");
  EXPECT_EQ(shape({0, 2, 0}, {0, 4}), "[0, 2, 4]");
}

TEST(Matmul, NumbersOfEveryMatrixOfABatch) {
  const Tensor a = random({3, 1, 4, 5}), b = random({2, 5, 6}, 2);
  const Tensor c = matmul(a, b);
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 2; ++j) {
      expect_near(c.select(0, i).select(0, j), plain(a.select(0, i).select(0, 0), b.select(0, j)));
    }
  }
  EXPECT_EQ(matmul(Tensor::zeros({2, 0}, DType::float64), Tensor::zeros({0, 3}, DType::float64)).to_vector(),
            std::vector<double>(6, 0.0));
}

TEST(Matmul, Gradients) {
  const auto product = [](const Inputs& in) { return matmul(in[0], in[1]); };
  const Shape shapes[][2] = {{{2, 3}, {3, 4}},
                             {{3}, {3}},
                             {{3}, {3, 4}},
                             {{2, 3}, {3}},
                             {{5, 2, 3}, {3, 4}},
                             {{2, 3}, {5, 3, 4}},
                             {{2, 1, 2, 3}, {3, 3, 2}},
                             {{5, 2, 3}, {3}},
                             {{0, 3}, {3, 4}},
                             {{2, 0}, {0, 4}},
                             {{0, 2, 3}, {3, 4}},
                             {{2, 0, 3}, {2, 3, 1}}};
  for (const auto& [a, b] : shapes) {
    SCOPED_TRACE(a.to_string() + " " + b.to_string());
    check_gradients(product, {random(a), random(b, 2)});
  }
  for (const Tensor& a : awkward({4, 6}, 1)) {
    for (const Tensor& b : awkward({6, 4}, 2)) check_gradients(product, {a, b});
  }
  check_gradients([](const Inputs& in) { return matmul(in[0], in[0].transpose(0, 1)); }, {random({3, 4})});
}

TEST(Linear, IsAProductWithABiasAndAnActivation) {
  const Tensor x = random({2, 3, 5}), w = random({4, 5}, 2), b = random({4}, 3);
  const Tensor expected = add(matmul(x, w.transpose(0, 1)), b);
  expect_near(linear(x, w, b), expected);
  expect_near(linear(x, w), matmul(x, w.transpose(0, 1)));
  for (const Activation activation : {Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu,
                                      Activation::tanh, Activation::sigmoid, Activation::quick_gelu}) {
    expect_near(linear(x, w, b, activation), activate(expected, activation));
  }
  EXPECT_EQ(linear(random({5}), w, b).shape().to_string(), "[4]");
  EXPECT_EQ(linear(random({0, 5}), w, b).shape().to_string(), "[0, 4]");
}

TEST(Linear, Gradients) {
  for (const Activation activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu, Activation::tanh,
        Activation::sigmoid, Activation::quick_gelu}) {
    const auto function = [=](const Inputs& in) { return linear(in[0], in[1], in[2], activation); };
    check_gradients(function, {random({2, 3, 5}), random({4, 5}, 2), random({4}, 3)});
    check_gradients(function, {random({5}), random({4, 5}, 2), random({4}, 3)});
    check_gradients(function, {random({0, 5}), random({4, 5}, 2), random({4}, 3)});
    check_gradients(function, {random({3, 70}), random({40, 70}, 2), random({40}, 3)});
  }
  for (const Tensor& x : awkward({4, 6}, 1)) {
    for (const Tensor& w : awkward({2, 6}, 2)) {
      check_gradients([](const Inputs& in) { return linear(in[0], in[1]); }, {x, w});
    }
  }
}

TEST(Linear, SixteenBitStorageSumsInFloat32) {
  const std::int64_t depth = 4096;
  const Tensor x = Tensor::full({1, depth}, 1.0, DType::bfloat16), w = Tensor::full({1, depth}, 1.0, DType::bfloat16);
  EXPECT_EQ(linear(x, w).item(), 4096.0);  // sums in bfloat16 stop at 256
}

TEST(Products, ErrorsNameWhatCame) {
  EXPECT_TRUE(contains(message_of([] {
                         matmul(Tensor::zeros({2, 3}), Tensor::zeros({4, 5}));
                       }),
                       "a's last size is 3, b's last but one is 4"));
  EXPECT_TRUE(contains(message_of([] { matmul(Tensor::zeros({2, 3, 3}), Tensor::zeros({4, 3, 3})); }), "broadcast"));
  EXPECT_TRUE(contains(message_of([] { matmul(Tensor::zeros({}), Tensor::zeros({3})); }), "at least one dimension"));
  EXPECT_TRUE(contains(message_of([] { matmul(Tensor::zeros({3}), Tensor::zeros({3}, DType::float64)); }),
                       "one floating dtype"));
  EXPECT_TRUE(contains(message_of([] { linear(Tensor::zeros({2, 3}), Tensor::zeros({4, 5})); }), "takes 5"));
  EXPECT_TRUE(contains(message_of([] {
                         linear(Tensor::zeros({2, 3}), Tensor::zeros({4, 3}), Tensor::zeros({3}));
                       }),
                       "bias is float32[3], expected float32[4]"));
  EXPECT_TRUE(contains(message_of([] { linear(Tensor(), Tensor::zeros({4, 3})); }), "undefined"));
}

}  // namespace

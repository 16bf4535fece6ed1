// add_dropout_norm() and linear_dropout() beside the operations that they join, and their gradients.
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "headway/ops.h"
#include "ops/linear.h"
#include "support/bits.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::Activation;
using headway::AddNorm;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using Inputs = std::vector<Tensor>;

constexpr std::uint64_t kSeed = 0x1234567890ABCDEFu;

// Results and gradients of a function of leaves.
Inputs evaluate(const std::function<Tensor(const Inputs&)>& function, const Inputs& inputs) {
  Inputs leaves;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.defined() ? input.detach() : input);
    if (input.defined()) leaves.back().set_requires_grad();
  }
  const Tensor result = function(leaves);
  result.backward(Tensor::randn(result.shape(), 9, result.dtype()));
  Inputs all = {result.detach()};
  for (const Tensor& leaf : leaves) all.push_back(leaf.defined() ? leaf.grad() : Tensor());
  return all;
}

void expect_same(const std::function<Tensor(const Inputs&)>& joined, const std::function<Tensor(const Inputs&)>& apart,
                 const Inputs& inputs) {
  const Inputs one = evaluate(joined, inputs), other = evaluate(apart, inputs);
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(same_bits(one[i], other[i])) << "result " << i;
}

AddNorm add_norm(const Inputs& x, double p) {
  return headway::add_dropout_norm(x[0], x[1], {.probability = p, .seed = kSeed, .weight = x[2], .bias = x[3]});
}

TEST(AddDropoutNorm, IsItsParts) {
  for (const DType dtype : kFloatingDTypes) {
    for (const double p : {0.0, 0.3}) {
      for (const Shape& shape : std::vector<Shape>{{3, 5, 32}, {7}, {2, 130}, {0, 4}}) {
        const Inputs inputs = {Tensor::randn(shape, 1, dtype), Tensor::randn(shape, 2, dtype),
                               Tensor::randn({shape[-1]}, 3, dtype), Tensor::randn({shape[-1]}, 4, dtype)};
        const auto sum = [p](const Inputs& x) { return headway::add_dropout(x[0], x[1], p, kSeed); };
        expect_same([p](const Inputs& x) { return add_norm(x, p).normed; },
                    [&](const Inputs& x) { return headway::layer_norm(sum(x), x[2], x[3]); }, inputs);
        expect_same([p](const Inputs& x) { return add_norm(x, p).sum; }, sum, inputs);
      }
    }
  }
}

TEST(AddDropoutNorm, HasTheGradientsOfBothResults) {
  for (const double p : {0.0, 0.4}) {
    const auto both = [p](const Inputs& x) {
      const AddNorm made = add_norm(x, p);
      return headway::add(headway::mul(made.normed, made.normed), headway::scale(made.sum, 0.5));
    };
    for (const Tensor& x : awkward({3, 6}, 1)) {
      check_gradients(both, {x, Tensor::randn({3, 6}, 2, DType::float64), Tensor::randn({6}, 3, DType::float64),
                             Tensor::randn({6}, 4, DType::float64)});
    }
    check_gradients(
        [p](const Inputs& x) {
          return add_norm({x[0], x[1], {}, {}}, p).normed;
        },
        {Tensor::randn({2, 5}, 5, DType::float64), Tensor::randn({2, 5}, 6, DType::float64)});
  }
}

TEST(AddDropoutNorm, TellsWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(message_of([&] {
              headway::add_dropout_norm(x, Tensor::zeros({2, 4}));
            }),
            "add_dropout_norm: x is float32[2, 3] and y is float32[2, 4], expected one dtype and shape");
  EXPECT_EQ(message_of([&] { headway::add_dropout_norm(x, x, {.probability = 1}); }),
            "add_dropout_norm: probability is 1, expected 0 <= p < 1");
  EXPECT_EQ(message_of([&] { headway::add_dropout_norm(x, x, {.weight = Tensor::zeros({2})}); }),
            "add_dropout_norm: weight is float32[2], expected float32[3] for x float32[2, 3]");
}

TEST(LinearDropout, IsItsParts) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu, Activation::tanh}) {
      for (const double p : {0.0, 0.3}) {
        const Inputs inputs = {Tensor::randn({3, 7, 24}, 1, dtype), Tensor::randn({40, 24}, 2, dtype),
                               Tensor::randn({40}, 3, dtype)};
        expect_same(
            [&](const Inputs& x) { return headway::internal::linear_dropout(x[0], x[1], x[2], activation, p, kSeed); },
            [&](const Inputs& x) { return headway::dropout(headway::linear(x[0], x[1], x[2], activation), p, kSeed); },
            inputs);
      }
    }
  }
}

TEST(LinearDropout, TellsWhatDoesNotFit) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(message_of([&] { headway::internal::linear_dropout(x, x, {}, Activation::relu, -0.5, 1); }),
            "linear_dropout: probability is -0.5, expected 0 <= p < 1");
}

}  // namespace
}  // namespace headway_test

// The record behind backward(): views, accumulation, errors, and what is freed when.
#include <gtest/gtest.h>

#include <thread>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "headway/tensor.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace {

using headway::DType;
using headway::NoGradGuard;
using headway::Shape;
using headway::Tensor;
using headway_test::check_gradients;
using headway_test::contains;
using headway_test::message_of;

using Inputs = std::vector<Tensor>;

Tensor leaf(const Shape& shape, std::uint64_t seed = 1) {
  return Tensor::randn(shape, seed, DType::float64).set_requires_grad();
}

TEST(Autograd, LeavesAndResults) {
  const Tensor x = leaf({3});
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(x.grad().defined());
  const Tensor y = scale(x, 2.0);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_FALSE(y.is_leaf());
  EXPECT_FALSE(x.detach().requires_grad());
  EXPECT_EQ(x.detach().raw_data(), x.raw_data());
  EXPECT_FALSE(Tensor::zeros({2}).requires_grad());
}

TEST(Autograd, GradientsAddUpOverCallsAndUses) {
  const Tensor x = leaf({3});
  sum(mul(x, x)).backward();
  EXPECT_EQ(x.grad().to_vector(), scale(x.detach(), 2.0).to_vector());
  sum(add(x, x)).backward();
  EXPECT_EQ(x.grad().to_vector(), add(scale(x.detach(), 2.0), Tensor::full({3}, 2.0, DType::float64)).to_vector());
  x.set_grad(Tensor());
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, AGradientGivenByTheCallerIsNotChanged) {
  const Tensor x = leaf({4});
  const Tensor d = Tensor::randn({4}, 5, DType::float64);
  const std::vector<double> before = d.to_vector();
  const Tensor y = add(x, x);  // both ways get the same tensor, whose sum must not be made in place
  y.backward(d);
  EXPECT_EQ(d.to_vector(), before);
  EXPECT_EQ(x.grad().to_vector(), scale(d, 2.0).to_vector());
  x.set_grad(Tensor());
  const Tensor between = scale(x, 1.0);  // here the sum is made on the way, not in a leaf
  add(between, between).backward(d);
  EXPECT_EQ(d.to_vector(), before);
  EXPECT_EQ(x.grad().to_vector(), scale(d, 2.0).to_vector());
  const Tensor z = leaf({4});
  z.backward(d);  // a leaf's own gradient
  z.backward(d);
  EXPECT_EQ(d.to_vector(), before);
  EXPECT_EQ(z.grad().to_vector(), scale(d, 2.0).to_vector());
}

TEST(Autograd, ManyUsesOfOneResultAreAddedBeforeTheWayBack) {
  check_gradients(
      [](const Inputs& in) {
        const Tensor shared = mul(in[0], in[1]);
        return add(mul(shared, shared), add(shared, scale(shared, 3.0)));
      },
      {leaf({2, 3}), leaf({2, 3}, 2)});
}

TEST(Autograd, Views) {
  const Tensor x = leaf({4, 3, 2});
  check_gradients([](const Inputs& in) { return mul(in[0].transpose(0, 2), in[0].transpose(0, 2)); }, {x});
  check_gradients([](const Inputs& in) { return in[0].permute({2, 0, 1}); }, {x});
  check_gradients([](const Inputs& in) { return in[0].slice(0, 1, 4, 2); }, {x});
  check_gradients([](const Inputs& in) { return in[0].slice(1, -2, 3); }, {x});
  check_gradients([](const Inputs& in) { return in[0].slice(1, 2, 2); }, {x});
  check_gradients([](const Inputs& in) { return in[0].select(1, -1); }, {x});
  check_gradients([](const Inputs& in) { return in[0].unsqueeze(1).squeeze(1); }, {x});
  check_gradients([](const Inputs& in) { return in[0].reshape({6, 4}); }, {x});
  check_gradients([](const Inputs& in) { return in[0].transpose(0, 1).reshape({3, 8}); }, {x});
  check_gradients([](const Inputs& in) { return in[0].view({24}); }, {x});
  check_gradients([](const Inputs& in) { return in[0].transpose(0, 1).contiguous(); }, {x});
  check_gradients([](const Inputs& in) { return in[0].clone(); }, {x});
  check_gradients([](const Inputs& in) { return in[0].unsqueeze(0).expand({5, 4, 3, 2}); }, {x});
  check_gradients([](const Inputs& in) { return in[0].expand({4, 3, 2}); }, {leaf({4, 1, 2})});
  check_gradients([](const Inputs& in) { return in[0].expand({2, 5}); }, {leaf({})});
  check_gradients([](const Inputs& in) { return in[0].expand({3, 0}); }, {leaf({3, 1})});
  check_gradients([](const Inputs& in) { return in[0].reshape({0, 7}); }, {leaf({7, 0})});
}

TEST(Autograd, SplitPartsMeetInOneGradient) {
  const auto parts_used = [](const Inputs& in) {
    const std::vector<Tensor> parts = split(in[0], {1, 2, 0, 3}, 1);
    EXPECT_EQ(parts.size(), 4u);
    return headway::concat({parts[3], mul(parts[1], parts[1])}, 1);  // parts[0] is not used
  };
  check_gradients(parts_used, {leaf({2, 6})});
  EXPECT_PRED2(contains, message_of([] { split(Tensor::zeros({4}), {1, 2}); }), "add up to 3");
  EXPECT_PRED2(contains, message_of([] { split(Tensor::zeros({4}), {5, -1}); }), "go past the 4");
}

TEST(Autograd, ConversionCarriesTheGradient) {
  const Tensor x = Tensor::randn({5}, 3).set_requires_grad();
  sum(mul(x.to(DType::float64), x.to(DType::float64))).backward();
  EXPECT_EQ(x.grad().dtype(), DType::float32);
  EXPECT_EQ(x.grad().to_vector(), scale(x.detach(), 2.0).to_vector());
  EXPECT_FALSE(x.to(DType::int32).requires_grad());
}

TEST(Autograd, NoGradGuardRecordsNothing) {
  const Tensor x = leaf({3});
  {
    const NoGradGuard guard;
    EXPECT_FALSE(headway::gradients_enabled());
    EXPECT_FALSE(scale(x, 2.0).requires_grad());
    { const NoGradGuard inner; }
    EXPECT_FALSE(headway::gradients_enabled());
    bool elsewhere = false;
    std::thread([&] { elsewhere = headway::gradients_enabled(); }).join();
    EXPECT_TRUE(elsewhere);
  }
  EXPECT_TRUE(headway::gradients_enabled());
}

TEST(Autograd, SecondBackwardNeedsRetainGraph) {
  const Tensor x = leaf({3});
  const Tensor y = sum(mul(x, x));
  y.backward({}, true);
  y.backward();
  EXPECT_EQ(x.grad().to_vector(), scale(x.detach(), 4.0).to_vector());
  const std::string message = message_of([&] { y.backward(); });
  EXPECT_PRED2(contains, message, "freed by an earlier backward");
  EXPECT_PRED2(contains, message, "retain_graph");
}

TEST(Autograd, WhatBackwardRefuses) {
  const Tensor x = leaf({3});
  EXPECT_PRED2(contains, message_of([&] { scale(x, 2.0).backward(); }), "has 3 elements, expected one");
  EXPECT_PRED2(contains, message_of([&] { Tensor::zeros({}).backward(); }), "requires a gradient");
  EXPECT_PRED2(contains, message_of([&] { scale(x, 2.0).backward(Tensor::zeros({2}, DType::float64)); }),
               "d_this is float64[2], expected float64[3]");
  EXPECT_PRED2(contains, message_of([&] { scale(x, 2.0).backward(Tensor::zeros({3})); }), "d_this is float32[3]");
  EXPECT_PRED2(contains, message_of([&] { scale(x, 2.0).set_requires_grad(false); }), "detach");
  EXPECT_PRED2(contains, message_of([&] { Tensor::zeros({2}, DType::int32).set_requires_grad(); }), "floating");
  EXPECT_PRED2(contains, message_of([&] { x.set_grad(Tensor::zeros({4}, DType::float64)); }), "expected float64[3]");
}

TEST(Autograd, ChangesInPlaceAreRefusedOrNoticed) {
  Tensor x = leaf({3});
  EXPECT_PRED2(contains, message_of([&] { x.fill(1); }), "NoGradGuard");
  EXPECT_PRED2(contains, message_of([&] { x.slice(0, 0, 1).copy_from(Tensor::zeros({1})); }), "NoGradGuard");
  const Tensor y = mul(x, x);
  {
    const NoGradGuard guard;
    x.fill(7);
  }
  EXPECT_PRED2(contains, message_of([&] { sum(y).backward(); }), "changed in place");
  x.set_grad(Tensor());
  const Tensor z = add(x, x);  // saves nothing
  {
    const NoGradGuard guard;
    x.fill(8);
  }
  sum(z).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{2, 2, 2}));
}

TEST(Autograd, RecordsAreFreedWithTheirTensors) {
  bool released = false;
  {
    std::vector<double> memory(3, 1.0);
    Tensor x = Tensor::wrap(memory.data(), {3}, DType::float64, [&] { released = true; });
    x.set_requires_grad();
    Tensor y = mul(x, x);
    for (int i = 0; i < 3; ++i) y = tanh(y);  // saves its own output
    x = Tensor();
    EXPECT_FALSE(released);
    y = Tensor();
    EXPECT_TRUE(released);
  }
  released = false;
  std::vector<double> memory(3, 1.0);
  Tensor x = Tensor::wrap(memory.data(), {3}, DType::float64, [&] { released = true; });
  const Tensor w = leaf({3});
  const Tensor loss = sum(mul(w, x));
  x = Tensor();
  EXPECT_FALSE(released);
  loss.backward();  // frees what was saved, though the loss lives on
  EXPECT_TRUE(released);
}

TEST(Autograd, LongChainsNeedNoDeepStack) {
  const Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 200000; ++i) y = scale(y, 1.0);
  y.backward();
  EXPECT_EQ(x.grad().item(), 1.0);
  Tensor z = x;
  for (int i = 0; i < 200000; ++i) z = scale(z, 1.0);
  z = Tensor();  // never walked
}

TEST(Autograd, AFrozenInputGetsNothing) {
  const Tensor x = leaf({2, 3}), w = Tensor::randn({4, 3}, 2, DType::float64);
  sum(linear(x, w)).backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(w.grad().defined());
}

}  // namespace

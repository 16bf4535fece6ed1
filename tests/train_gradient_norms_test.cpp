// Norms of gradients, by parameter and by layer, and clipping.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "headway/optimizer.h"
#include "headway/threads.h"
#include "support/bits.h"
#include "support/message_of.h"
#include "train/gradient_norms.h"

namespace {

using headway::DType;
using headway::GradientNorms;
using headway::NamedTensor;
using headway::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

NamedTensor with_gradient(const std::string& name, const Tensor& gradient) {
  Tensor parameter = Tensor::zeros(gradient.shape(), gradient.dtype()).set_requires_grad();
  parameter.set_grad(gradient);
  return {name, parameter};
}

TEST(TrainGradientNorms, LayersComeFromNames) {
  for (const auto& [name, layer] : std::vector<std::pair<std::string, std::string>>{
           {"encoder.layers.0.self_attn.in_proj_weight", "encoder.layers.0"},
           {"decoder.layers.11.linear1.weight", "decoder.layers.11"},
           {"embedding.weight", "embedding"},
           {"encoder.norm.bias", "encoder.norm"},
           {"weight", "weight"},
           {"0.weight", "0"},
           {"layers.3.feed_forward.0.weight", "layers.3"},
           {"x.0", "x"},
       }) {
    EXPECT_EQ(headway::internal::layer_of(name), layer);
  }
}

TEST(TrainGradientNorms, AreThoseOfThePlainSums) {
  const std::vector<NamedTensor> parameters = {
      with_gradient("embedding.weight", Tensor::full({3}, 2.0)),
      with_gradient("layers.0.weight", Tensor::full({2, 2}, 3.0, DType::bfloat16)),
      with_gradient("layers.0.bias", Tensor::full({1}, 4.0, DType::float64)),
      {"layers.1.weight", Tensor::zeros({2}).set_requires_grad()},
      with_gradient("layers.1.bias", Tensor::zeros({2})),
      with_gradient("head.weight", Tensor::zeros({0})),
  };
  const GradientNorms norms = headway::gradient_norms(parameters);
  ASSERT_EQ(norms.parameters.size(), 5u);
  EXPECT_NEAR(norms.parameters[0].norm, std::sqrt(12.0), 1e-14);
  EXPECT_NEAR(norms.parameters[1].norm, 6.0, 1e-14);
  EXPECT_EQ(norms.parameters[3].name, "layers.1.bias");
  EXPECT_EQ(norms.parameters[3].norm, 0.0);
  ASSERT_EQ(norms.layers.size(), 4u);
  EXPECT_EQ(norms.layers[1].name, "layers.0");
  EXPECT_NEAR(norms.layers[1].norm, std::sqrt(36.0 + 16.0), 1e-14);
  EXPECT_EQ(norms.layers[3].name, "head");
  EXPECT_NEAR(norms.total, 8.0, 1e-14);
  EXPECT_TRUE(norms.bad.empty());
  EXPECT_EQ(headway::gradient_norms({}).total, 0.0);
}

TEST(TrainGradientNorms, VanishingAndHugeOnesAreStillSeen) {
  EXPECT_NEAR(headway::gradient_norms({with_gradient("p", Tensor::full({4}, 1e-30))}).total / 2e-30, 1.0, 1e-6);
  EXPECT_NEAR(headway::gradient_norms({with_gradient("p", Tensor::full({4}, 1e30))}).total / 2e30, 1.0, 1e-6);
  EXPECT_NEAR(headway::gradient_norms({with_gradient("p", Tensor::full({4}, 1e-200, DType::float64))}).total / 2e-200,
              1.0, 1e-12);
  const GradientNorms huge = headway::gradient_norms({with_gradient("a", Tensor::full({4}, 1e200, DType::float64)),
                                                      with_gradient("b", Tensor::full({4}, 1e200, DType::float64))});
  EXPECT_NEAR(huge.total / (2e200 * std::sqrt(2.0)), 1.0, 1e-12);
  EXPECT_TRUE(huge.bad.empty());
}

TEST(TrainGradientNorms, BadOnesComeFromTheOutputOn) {
  for (const double poison : {kInfinity, -kInfinity, std::nan("")}) {
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
      Tensor bad = Tensor::full({50000}, 1.0, dtype);
      bad.slice(0, 41234, 41235).fill(poison);
      const GradientNorms norms =
          headway::gradient_norms({with_gradient("a", bad), with_gradient("b", Tensor::full({2}, 1.0)),
                                   with_gradient("c", bad), with_gradient("d", Tensor::full({2}, 1.0))});
      EXPECT_EQ(norms.bad, (std::vector<std::string>{"c", "a"}));
      EXPECT_FALSE(std::isfinite(norms.total));
      EXPECT_EQ(norms.parameters[1].norm, std::sqrt(2.0));
    }
  }
}

TEST(TrainGradientNorms, TheSameBitsAtEveryNumberOfThreads) {
  const std::vector<NamedTensor> parameters = {with_gradient("a", Tensor::randn({300, 333}, 1)),
                                               with_gradient("b", Tensor::randn({77777}, 2))};
  const int before = headway::num_threads();
  headway::set_num_threads(1);
  const double expected = headway::gradient_norms(parameters).total;
  for (const int threads : {2, 3, 5}) {
    headway::set_num_threads(threads);
    EXPECT_EQ(headway::gradient_norms(parameters).total, expected);
  }
  headway::set_num_threads(before);
}

TEST(TrainGradientNorms, ClippingScalesAll) {
  const std::vector<NamedTensor> parameters = {with_gradient("a", Tensor::full({3}, 2.0)),
                                               with_gradient("b", Tensor::full({1}, 2.0, DType::float64))};
  EXPECT_NEAR(headway::clip_gradient_norm(parameters, 5.0), 4.0, 1e-14);
  EXPECT_EQ(parameters[0].tensor.grad().at({0}), 2.0);
  const Tensor seen = parameters[0].tensor.grad();
  EXPECT_NEAR(headway::clip_gradient_norm(parameters, 1.0), 4.0, 1e-14);
  EXPECT_NEAR(seen.at({0}), 2.0 / (4.0 + 1e-6), 1e-7);
  EXPECT_NEAR(headway::gradient_norms(parameters).total, 1.0, 1e-6);

  const std::vector<NamedTensor> bad = {with_gradient("a", Tensor::full({1}, kInfinity)),
                                        with_gradient("b", Tensor::full({1}, 2.0))};
  EXPECT_EQ(headway::clip_gradient_norm(bad, 1.0), kInfinity);
  EXPECT_EQ(bad[1].tensor.grad().item(), 2.0);
  EXPECT_EQ(headway_test::message_of([&] { headway::clip_gradient_norm(parameters, 0.0); }),
            "clip_gradient_norm: max_norm is 0, expected more than 0");
}

}  // namespace

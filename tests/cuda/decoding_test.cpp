// Steps of decoding on the GPU beside the CPU, one by one and as recorded work.
#include "ops/decoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "headway/ops.h"
#include "ops/elementwise.h"

namespace headway_test {
namespace {

using headway::Device;
using headway::DType;
using headway::Shape;
using headway::Tensor;
using namespace headway::internal;
using Numbers = std::vector<std::int64_t>;

constexpr DType kDTypes[] = {DType::float32, DType::float64, DType::bfloat16, DType::float16};

double tolerance(DType dtype) {
  if (dtype == DType::float64) return 1e-12;
  return dtype == DType::float32 ? 2e-5 : 2e-2;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const std::string& what) {
  const std::vector<double> a = found.to_vector(), b = expected.to_vector();
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(b[i])) {
      ASSERT_TRUE(std::isnan(a[i])) << what << " at " << i;
    } else {
      ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << what << " at " << i;
    }
  }
}

TEST(CudaDecoding, EmbedsTokens) {
  for (const DType dtype : kDTypes) {
    for (const std::int64_t features : {1, 7, 256}) {
      const Tensor weight = Tensor::randn({50, features}, 1, dtype), positions = Tensor::randn({9, features}, 2, dtype);
      const Tensor tokens = Tensor::from(Numbers{3, 0, 49, 50, -1}, {5}), position = Tensor::from(Numbers{8}, {1});
      const Device gpu = Device::cuda();
      expect_near(embed_step(weight.to(gpu), tokens.to(gpu), positions.to(gpu), position.to(gpu), 1.5),
                  embed_step(weight, tokens, positions, position, 1.5), tolerance(dtype), "embed_step");
    }
  }
}

TEST(CudaDecoding, ProductsAndMeans) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t rows : {1, 5, 130}) {
      const Tensor x = Tensor::randn({rows, 64}, 1, dtype), added = Tensor::randn({rows, 96}, 4, dtype);
      const Tensor weight = Tensor::randn({96, 64}, 2, dtype), bias = Tensor::randn({96}, 3, dtype);
      const auto here = pack_weight(weight, bias), there = pack_weight(weight.to(gpu), bias.to(gpu));
      expect_near(linear_step(x.to(gpu), there, headway::Activation::relu),
                  linear_step(x, here, headway::Activation::relu), 2 * tolerance(dtype), "with an activation");
      expect_near(linear_step(x.to(gpu), there, headway::Activation::none, added.to(gpu)),
                  linear_step(x, here, headway::Activation::none, added), 2 * tolerance(dtype), "added");
      const Tensor mean = added.clone(), mean_there = added.to(gpu);
      const Tensor now = Tensor::randn(added.shape(), 5, dtype);
      lerp_into(mean, now, 0.2);
      lerp_into(mean_there, now.to(gpu), 0.2);
      expect_near(mean_there, mean, tolerance(dtype), "lerp_into");
    }
  }
}

// Steps of rows that change places, at every length up to the capacity and one beyond.
TEST(CudaDecoding, SelfAttention) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const auto& [heads, head_dim] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{8, 32}, {2, 5}, {1, 64}, {3, 100}, {2, 256}, {4, 8}}) {
      constexpr std::int64_t kRows = 5, kCapacity = 140;
      const std::int64_t features = heads * head_dim;
      const std::string what = "heads " + std::to_string(heads) + " of " + std::to_string(head_dim);
      headway::internal::TokenCache here = {Tensor::zeros({kRows + 1, kCapacity, 2 * features}, dtype),
                                            Tensor::zeros({kRows, kCapacity}, DType::int32)};
      headway::internal::TokenCache there = {here.keys_values.to(gpu), here.origins.to(gpu)};
      for (std::int64_t t = 0; t < kCapacity + 1; t += t < 35 || t > 136 ? 1 : 9) {
        const Tensor projected = Tensor::randn({kRows, 3 * features}, static_cast<std::uint64_t>(t + 1), dtype);
        const Tensor position = Tensor::from(Numbers{t}, {1});
        const Tensor order = Tensor::from(Numbers{t % 5, 1, 2, (t + 3) % 5, 0}, {kRows});
        here.origins.copy_from(gather_rows(here.origins, order));
        there.origins.copy_from(gather_rows(there.origins, order.to(gpu)));
        expect_near(self_attention_step(projected.to(gpu), there, position.to(gpu), heads),
                    self_attention_step(projected, here, position, heads), tolerance(dtype), what);
      }
      EXPECT_EQ(there.origins.to_vector(), here.origins.to_vector());
      EXPECT_EQ(there.keys_values.to_vector(), here.keys_values.to_vector());
    }
  }
}

TEST(CudaDecoding, CrossAttention) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t length : {1, 31, 32, 33, 300}) {
      constexpr std::int64_t kFeatures = 96, kHeads = 3;
      const Tensor memory = Tensor::randn({3, length, 2 * kFeatures}, 1, dtype);
      memory.slice(0, 1, 2).slice(1, length / 2, length).fill(NAN);  // padding is never looked at
      const Tensor query = Tensor::randn({5, kFeatures}, 2, dtype);
      const Tensor lengths = Tensor::from(Numbers{length, length / 2, 1}, {3});
      const Tensor source_of = Tensor::from(std::vector<std::int32_t>{2, 0, 1, 0, 7}, {5});
      expect_near(cross_attention_step(query.to(gpu), {memory.to(gpu), lengths.to(gpu), source_of.to(gpu)}, kHeads),
                  cross_attention_step(query, {memory, lengths, source_of}, kHeads), tolerance(dtype),
                  "length " + std::to_string(length));
    }
  }
}

TEST(CudaDecoding, TopTokens) {
  const Device gpu = Device::cuda();
  for (const DType dtype : kDTypes) {
    for (const std::int64_t classes : {1, 5, 300, 8003}) {
      for (const std::int64_t count : {1, 2, 8, 40}) {
        const Tensor logits = Tensor::randn({6, classes}, 3, dtype);
        logits.slice(0, 1, 2).fill(2.0);  // all equal
        logits.slice(0, 2, 3).slice(1, 0, classes / 2).fill(-INFINITY);
        const auto make = [&](Device device) {
          return headway::internal::TopTokens{Tensor::zeros({6, count}, DType::int64, device),
                                              Tensor::zeros({6, count}, DType::float32, device),
                                              Tensor::zeros({6}, DType::float32, device)};
        };
        const headway::internal::TopTokens here = make(Device::cpu()), there = make(gpu);
        top_tokens(logits, classes / 3, here);
        top_tokens(logits.to(gpu), classes / 3, there);
        const std::string what = std::to_string(count) + " of " + std::to_string(classes);
        EXPECT_EQ(there.tokens.to_vector(), here.tokens.to_vector()) << what;
        EXPECT_EQ(there.logits.to_vector(), here.logits.to_vector()) << what;
        expect_near(there.logsumexp, here.logsumexp, 1e-5, what);
      }
    }
  }
}

// A recorded step moves on by itself: what it reads is on the GPU.
TEST(CudaDecoding, StepsAreRecorded) {
  constexpr std::int64_t kRows = 4, kFeatures = 32, kClasses = 100, kCapacity = 10;
  const auto run = [&](Device device, bool recorded) {
    const Tensor weight = Tensor::randn({kClasses, kFeatures}, 1).to(device);
    const Tensor projection = Tensor::randn({3 * kFeatures, kFeatures}, 2).to(device);
    const Tensor positions = Tensor::randn({kCapacity, kFeatures}, 3).to(device);
    const Tensor newest = Tensor::from(Numbers{5, 6, 7, 8}, {kRows}).to(device);
    const Tensor position = Tensor::zeros({1}, DType::int64, device);
    const headway::internal::TokenCache cache = {
        Tensor::zeros({kRows, kCapacity, 2 * kFeatures}, DType::float32, device),
        Tensor::zeros({kRows, kCapacity}, DType::int32, device)};
    const headway::internal::TopTokens top = {Tensor::zeros({kRows, 1}, DType::int64, device),
                                              Tensor::zeros({kRows, 1}, DType::float32, device),
                                              Tensor::zeros({kRows}, DType::float32, device)};
    const headway::internal::GreedyHistory history = {Tensor::zeros({kCapacity, kRows}, DType::int64, device),
                                                      Tensor::zeros({kCapacity, kRows}, DType::float32, device)};
    const auto step = [&] {
      const Tensor x = embed_step(weight, newest, positions, position);
      const Tensor attended = self_attention_step(linear(x, projection), cache, position, 4);
      top_tokens(linear(layer_norm(add(x, attended)), weight), 0, top);
      take_best(top, newest, history, position);
    };
    step();
    if (recorded) {
      const headway::DeviceGraph graph(device, step);
      for (int i = 1; i < kCapacity; ++i) graph.replay();
    } else {
      for (int i = 1; i < kCapacity; ++i) step();
    }
    return history.tokens.to_vector();
  };
  const std::vector<double> expected = run(Device::cpu(), false);
  EXPECT_EQ(run(Device::cuda(), false), expected);
  EXPECT_EQ(run(Device::cuda(), true), expected);
}

}  // namespace
}  // namespace headway_test

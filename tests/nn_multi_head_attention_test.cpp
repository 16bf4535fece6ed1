// The layer: worked examples from the formula, every option, caches and errors.
#include <gtest/gtest.h>

#include <cmath>

#include "headway/autograd.h"
#include "headway/multi_head_attention.h"
#include "headway/random.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace {

using headway::Causal;
using headway::DType;
using headway::KeyValueCache;
using headway::Mask;
using headway::MultiHeadAttention;
using headway::MultiHeadAttentionOptions;
using headway::Shape;
using headway::StateDict;
using headway::Tensor;
using headway::Weights;
using namespace headway_test;

Tensor random(const Shape& shape, std::uint64_t seed) { return Tensor::randn(shape, seed, DType::float64); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const std::vector<double> a = actual.to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

Tensor matrix(std::initializer_list<double> values, const Shape& shape) { return Tensor::from<double>(values, shape); }

Tensor booleans(const std::vector<bool>& values, const Shape& shape) { return Tensor::from<bool>(values, shape); }

// Three tokens, three heads of size 1, all projections the identity: each feature attends by itself.
TEST(MultiHeadAttentionByHand, ThreeTokensThreeHeadsOfSizeOne) {
  const MultiHeadAttention layer({.embed_dim = 3, .num_heads = 3, .bias = false, .dtype = DType::float64});
  const Tensor eye = matrix({1, 0, 0, 0, 1, 0, 0, 0, 1}, {3, 3});
  layer.load_state_dict({{"in_proj_weight", headway::concat({eye, eye, eye}, 0)}, {"out_proj.weight", eye}});
  const double x[3][3] = {{1, 0, 1}, {0, 2, 0}, {1, 1, 0}};
  const auto [output, weights] =
      layer.forward({.query = matrix({1, 0, 1, 0, 2, 0, 1, 1, 0}, {3, 3}), .weights = Weights::per_head});
  ASSERT_EQ(output.shape().to_string(), "[3, 3]");
  ASSERT_EQ(weights.shape().to_string(), "[3, 3, 3]");
  for (int h = 0; h < 3; ++h) {
    for (int q = 0; q < 3; ++q) {
      double total = 0, sum = 0;
      for (int k = 0; k < 3; ++k) total += std::exp(x[q][h] * x[k][h]);  // sqrt(1) divides nothing
      for (int k = 0; k < 3; ++k) {
        const double weight = std::exp(x[q][h] * x[k][h]) / total;
        EXPECT_NEAR(weights.at({h, q, k}), weight, 1e-15);
        sum += weight * x[k][h];
      }
      EXPECT_NEAR(output.at({q, h}), sum, 1e-15);
    }
  }
  EXPECT_NEAR(weights.at({0, 0, 0}), std::exp(1.0) / (2 * std::exp(1.0) + 1), 1e-15);
}

// Embed 4, two heads, a batch of 2, three tokens: project, score, scale, mask, softmax, weigh, concatenate, project.
TEST(MultiHeadAttentionByHand, TwoHeadsStepByStep) {
  const MultiHeadAttention layer({.embed_dim = 4, .num_heads = 2, .dtype = DType::float64});
  const Tensor in_weight = random({12, 4}, 1), in_bias = random({12}, 2);
  const Tensor out_weight = random({4, 4}, 3), out_bias = random({4}, 4), x = random({2, 3, 4}, 5);
  layer.load_state_dict({{"in_proj_weight", in_weight},
                         {"in_proj_bias", in_bias},
                         {"out_proj.weight", out_weight},
                         {"out_proj.bias", out_bias}});
  for (const bool causal : {false, true}) {
    const auto [output, weights] =
        layer.forward({.query = x, .causal = causal ? Causal::top_left : Causal::none, .weights = Weights::per_head});
    ASSERT_EQ(weights.shape().to_string(), "[2, 2, 3, 3]");
    for (int b = 0; b < 2; ++b) {
      double qkv[3][12], joined[3][4] = {};
      for (int t = 0; t < 3; ++t) {
        for (int f = 0; f < 12; ++f) {
          qkv[t][f] = in_bias.at({f});
          for (int i = 0; i < 4; ++i) qkv[t][f] += x.at({b, t, i}) * in_weight.at({f, i});
        }
      }
      for (int h = 0; h < 2; ++h) {
        for (int q = 0; q < 3; ++q) {
          double power[3], total = 0;
          for (int k = 0; k < 3; ++k) {
            double score = 0;
            for (int i = 0; i < 2; ++i) score += qkv[q][2 * h + i] * qkv[k][4 + 2 * h + i];
            power[k] = causal && k > q ? 0 : std::exp(score / std::sqrt(2.0));
            total += power[k];
          }
          for (int k = 0; k < 3; ++k) {
            EXPECT_NEAR(weights.at({b, h, q, k}), power[k] / total, 1e-14);
            for (int i = 0; i < 2; ++i) joined[q][2 * h + i] += power[k] / total * qkv[k][8 + 2 * h + i];
          }
        }
      }
      for (int t = 0; t < 3; ++t) {
        for (int f = 0; f < 4; ++f) {
          double expected = out_bias.at({f});
          for (int i = 0; i < 4; ++i) expected += joined[t][i] * out_weight.at({f, i});
          EXPECT_NEAR(output.at({b, t, f}), expected, 1e-13);
        }
      }
    }
  }
}

TEST(MultiHeadAttention, ShapesOfTheReadme) {
  const MultiHeadAttention layer({.embed_dim = 512, .num_heads = 8, .dropout = 0.1});
  const Tensor q = Tensor::randn({2, 4, 512}, 1), k = Tensor::randn({2, 6, 512}, 2), v = Tensor::randn({2, 6, 512}, 3);
  const auto [output, weights] = layer.forward({.query = q, .key = k, .value = v, .weights = Weights::per_head});
  EXPECT_EQ(output.shape().to_string(), "[2, 4, 512]");
  EXPECT_EQ(weights.shape().to_string(), "[2, 8, 4, 6]");
  const auto averaged = layer.forward({.query = q, .key = k, .value = v, .weights = Weights::mean});
  EXPECT_EQ(averaged.weights.shape().to_string(), "[2, 4, 6]");
  EXPECT_FALSE(layer.forward({.query = q}).weights.defined());
}

TEST(MultiHeadAttention, NamesAreTorchs) {
  const auto names = [](const MultiHeadAttentionOptions& options) {
    std::string all;
    for (const auto& [name, tensor] : MultiHeadAttention(options).state_dict()) {
      all += name + tensor.shape().to_string() + " ";
    }
    return all;
  };
  EXPECT_EQ(names({.embed_dim = 8, .num_heads = 2}),
            "in_proj_bias[24] in_proj_weight[24, 8] out_proj.bias[8] out_proj.weight[8, 8] ");
  EXPECT_EQ(names({.embed_dim = 8, .num_heads = 2, .kdim = 6, .bias = false}),
            "k_proj_weight[8, 6] out_proj.weight[8, 8] q_proj_weight[8, 8] v_proj_weight[8, 8] ");
  EXPECT_EQ(names({.embed_dim = 8, .num_heads = 2, .bias = false, .add_bias_kv = true}),
            "bias_k[1, 1, 8] bias_v[1, 1, 8] in_proj_weight[24, 8] out_proj.weight[8, 8] ");
  EXPECT_EQ(names({.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2, .head_dim = 3, .bias = false}),
            "in_proj_weight[24, 8] out_proj.weight[8, 12] ");
}

// One product or three, one tensor or copies: the same numbers and gradients.
TEST(MultiHeadAttention, FusedAndSeparateProjectionsAgree) {
  const MultiHeadAttention layer({.embed_dim = 6, .num_heads = 2, .dtype = DType::float64});
  const Tensor x = random({2, 5, 6}, 1).set_requires_grad(), copy1 = x.detach().clone().set_requires_grad(),
               copy2 = x.detach().clone().set_requires_grad(), copy3 = x.detach().clone().set_requires_grad();
  const Tensor d = random({2, 5, 6}, 2);
  const auto gradient_of = [&](const headway::MultiHeadAttentionInput& input) {
    layer.zero_grad();
    const Tensor output = layer.forward(input).output;
    output.backward(d);
    return std::pair(output.detach(), layer.parameters()[0].grad());
  };
  const auto fused = gradient_of({.query = x});
  const auto two = gradient_of({.query = copy1, .key = copy2});
  expect_near(two.first, fused.first);
  expect_near(two.second, fused.second);
  expect_near(add(copy1.grad(), copy2.grad()), x.grad());
  copy1.set_grad({});
  copy2.set_grad({});
  const auto three = gradient_of({.query = copy1, .key = copy2, .value = copy3});
  expect_near(three.first, fused.first);
  expect_near(three.second, fused.second);
  expect_near(add(add(copy1.grad(), copy2.grad()), copy3.grad()), x.grad());
}

// The same memory with another way back is another tensor.
TEST(MultiHeadAttention, ADetachedKeyGetsNoGradient) {
  const MultiHeadAttention layer({.embed_dim = 4, .num_heads = 2, .dtype = DType::float64});
  const Tensor x = random({1, 3, 4}, 1).set_requires_grad(), y = x.detach().clone();
  const Tensor z = x.detach().clone().set_requires_grad();
  sum(layer.forward({.query = x, .key = x.detach()}).output).backward();
  sum(layer.forward({.query = z, .key = y}).output).backward();
  expect_near(x.grad(), z.grad());
}

struct Variant {
  const char* name;
  MultiHeadAttentionOptions options;
};

std::vector<Variant> variants() {
  const DType f64 = DType::float64;
  return {{"plain", {.embed_dim = 6, .num_heads = 3, .dtype = f64}},
          {"no bias", {.embed_dim = 6, .num_heads = 3, .bias = false, .dtype = f64}},
          {"other widths", {.embed_dim = 6, .num_heads = 3, .kdim = 4, .vdim = 5, .dtype = f64}},
          {"grouped", {.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2, .dtype = f64}},
          {"own head size", {.embed_dim = 6, .num_heads = 2, .head_dim = 4, .dtype = f64}},
          {"learned key", {.embed_dim = 6, .num_heads = 3, .add_bias_kv = true, .dtype = f64}},
          {"zero key", {.embed_dim = 6, .num_heads = 3, .add_zero_attn = true, .dtype = f64}},
          {"both keys", {.embed_dim = 6, .num_heads = 3, .add_bias_kv = true, .add_zero_attn = true, .dtype = f64}},
          {"rotary", {.embed_dim = 8, .num_heads = 2, .rotary = headway::RotaryOptions{}, .dtype = f64}},
          {"length first", {.embed_dim = 6, .num_heads = 3, .batch_first = false, .dtype = f64}}};
}

// Gradients of every input and parameter, by finite differences, with masks and weights in the play.
TEST(MultiHeadAttention, GradientsOfEveryVariant) {
  for (const Variant& variant : variants()) {
    SCOPED_TRACE(variant.name);
    const MultiHeadAttention layer(variant.options);
    const std::int64_t batch = 2, queries = 3, keys = 4;
    const auto sized = [&](std::int64_t length, std::int64_t features, std::uint64_t seed) {
      return random(variant.options.batch_first ? Shape{batch, length, features} : Shape{length, batch, features},
                    seed);
    };
    std::vector<Tensor> inputs = {sized(queries, variant.options.embed_dim, 1),
                                  sized(keys, variant.options.kdim.value_or(variant.options.embed_dim), 2),
                                  sized(keys, variant.options.vdim.value_or(variant.options.embed_dim), 3)};
    const Mask padding = Mask::drop(booleans({false, false, true, false, false, false, false, true}, {batch, keys}));
    for (const auto& parameter : layer.named_parameters()) inputs.push_back(parameter.tensor.detach());
    const auto function = [&](const std::vector<Tensor>& in) {
      std::size_t next = 3;
      for (const auto& parameter : layer.named_parameters()) layer.set_parameter(parameter.name, in[next++]);
      const auto [output, weights] = layer.forward({.query = in[0],
                                                    .key = in[1],
                                                    .value = in[2],
                                                    .causal = Causal::bottom_right,
                                                    .key_padding_mask = padding,
                                                    .weights = Weights::per_head});
      return headway::concat({output.reshape({-1}), weights.reshape({-1})}, 0);
    };
    check_gradients(function, inputs);
  }
}

TEST(MultiHeadAttention, DecodingTokenByTokenGivesTheSame) {
  for (const Variant& variant : variants()) {
    if (variant.options.kdim || !variant.options.batch_first) continue;
    SCOPED_TRACE(variant.name);
    const headway::NoGradGuard guard;
    const MultiHeadAttention layer(variant.options);
    const std::int64_t length = 40;  // past the first capacity of a cache
    const Tensor x = random({2, length, variant.options.embed_dim}, 1);
    const Tensor whole = layer.forward({.query = x, .causal = Causal::top_left}).output;
    KeyValueCache cache;
    for (std::int64_t begin = 0; begin < length;) {
      const std::int64_t end = std::min(begin + (begin % 7 == 0 ? 3 : 1), length);
      const Tensor part =
          layer.forward({.query = x.slice(1, begin, end), .causal = Causal::top_left, .cache = &cache}).output;
      expect_near(part, whole.slice(1, begin, end));
      begin = end;
    }
    EXPECT_EQ(cache.length(), length);
  }
}

TEST(MultiHeadAttention, AStaticCacheKeepsTheMemory) {
  const headway::NoGradGuard guard;
  const MultiHeadAttention layer({.embed_dim = 6, .num_heads = 2, .dtype = DType::float64});
  const Tensor query = random({2, 1, 6}, 1), memory = random({2, 5, 6}, 2);
  const Tensor expected = layer.forward({.query = query, .key = memory}).output;
  KeyValueCache cache;
  for (int i = 0; i < 2; ++i) {
    expect_near(layer.forward({.query = query, .key = memory, .cache = &cache, .cache_is_static = true}).output,
                expected);
    EXPECT_EQ(cache.length(), 5);
  }
}

TEST(KeyValueCache, ReorderAndClear) {
  KeyValueCache cache;
  cache.append(random({2, 1, 3, 4}, 1), random({2, 1, 3, 4}, 2));
  const Tensor keys = cache.keys().clone();
  cache.reorder({1, 1, 0});
  ASSERT_EQ(cache.keys().shape().to_string(), "[3, 1, 3, 4]");
  expect_near(cache.keys().select(0, 0), keys.select(0, 1), 0);
  expect_near(cache.keys().select(0, 2), keys.select(0, 0), 0);
  EXPECT_PRED2(contains, message_of([&] { cache.reorder({3}); }), "entry 3");
  EXPECT_PRED2(contains, message_of([&] {
                 cache.append(random({2, 1, 1, 4}, 1), random({2, 1, 1, 4}, 2));
               }),
               "does not go with");
  cache.clear();
  EXPECT_EQ(cache.length(), 0);
  cache.append(random({2, 1, 1, 4}, 1), random({2, 1, 1, 4}, 2));
  EXPECT_EQ(cache.keys().shape().to_string(), "[2, 1, 1, 4]");
}

TEST(MultiHeadAttention, DropoutWorksInTrainingAlone) {
  headway::set_random_seed(7);
  const MultiHeadAttention layer({.embed_dim = 8,
                                  .num_heads = 2,
                                  .dropout = 0.5,
                                  .projection_dropout = 0.1,
                                  .output_dropout = 0.1,
                                  .dtype = DType::float64});
  const Tensor x = random({2, 5, 8}, 1);
  const headway::RandomState state = headway::random_state();
  const Tensor first = layer.forward({.query = x}).output, second = layer.forward({.query = x}).output;
  EXPECT_NE(first.to_vector(), second.to_vector());
  headway::set_random_state(state);
  EXPECT_EQ(layer.forward({.query = x}).output.to_vector(), first.to_vector());
  layer.eval();
  EXPECT_EQ(layer.forward({.query = x}).output.to_vector(), layer.forward({.query = x}).output.to_vector());
}

TEST(MultiHeadAttention, SixteenBitLayer) {
  const MultiHeadAttention layer({.embed_dim = 64, .num_heads = 4});
  const Tensor x = Tensor::randn({2, 9, 64}, 1);
  const Tensor expected = layer.forward({.query = x}).output.detach();
  layer.to(DType::bfloat16);
  const Tensor output = layer.forward({.query = x.to(DType::bfloat16)}).output;
  EXPECT_EQ(output.dtype(), DType::bfloat16);
  expect_near(output.detach().to(DType::float32), expected, 0.03);
  sum(output.to(DType::float32)).backward();
  EXPECT_EQ(layer.parameters()[0].grad().dtype(), DType::bfloat16);
}

TEST(MultiHeadAttention, ErrorsNameWhatCame) {
  const auto message = [](const MultiHeadAttentionOptions& options) {
    return message_of([&] { MultiHeadAttention layer(options); });
  };
  EXPECT_EQ(message({.embed_dim = 10, .num_heads = 3}),
            "MultiHeadAttention: embed_dim is 10, which is not a multiple of num_heads, 3");
  EXPECT_PRED2(contains, message({.embed_dim = 0, .num_heads = 3}), "embed_dim is 0");
  EXPECT_PRED2(contains, message({.embed_dim = 8, .num_heads = 4, .num_kv_heads = 3}), "num_kv_heads, 3");
  EXPECT_PRED2(contains, message({.embed_dim = 8, .num_heads = 4, .dropout = 1.0}), "dropout is 1");
  const MultiHeadAttention layer({.embed_dim = 8, .num_heads = 2});
  const auto forward = [&](const headway::MultiHeadAttentionInput& input) {
    return message_of([&] { layer.forward(input); });
  };
  EXPECT_PRED2(contains, forward({}), "query is not given");
  EXPECT_PRED2(contains, forward({.query = Tensor::zeros({2, 3, 7})}),
               "query is float32[2, 3, 7], expected [batch, length, 8]");
  EXPECT_PRED2(contains, forward({.query = Tensor::zeros({2, 3, 8}), .key = Tensor::zeros({1, 3, 8})}),
               "batches of 2, 1");
  EXPECT_PRED2(
      contains,
      forward({.query = Tensor::zeros({2, 3, 8}), .key = Tensor::zeros({2, 3, 8}), .value = Tensor::zeros({2, 4, 8})}),
      "length of 3 and value one of 4");
}

}  // namespace

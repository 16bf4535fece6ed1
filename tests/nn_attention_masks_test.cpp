// What masks, lengths and biases of the layer hide, seen by its weights.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/multi_head_attention.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace {

using headway::Causal;
using headway::DType;
using headway::Mask;
using headway::MultiHeadAttention;
using headway::Shape;
using headway::Tensor;
using headway::Weights;
using namespace headway_test;

Tensor random(const Shape& shape, std::uint64_t seed) { return Tensor::randn(shape, seed, DType::float64); }

Tensor booleans(const std::vector<bool>& values, const Shape& shape) { return Tensor::from<bool>(values, shape); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance = 1e-12) {
  ASSERT_EQ(actual.shape().to_string(), expected.shape().to_string());
  const std::vector<double> a = actual.to_vector(), e = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], e[i], tolerance) << "at " << i;
}

class Masks : public testing::Test {
 protected:
  const MultiHeadAttention layer_{{.embed_dim = 4, .num_heads = 2, .dtype = DType::float64}};
  const Tensor x_ = random({2, 3, 4}, 1);

  Tensor weights(headway::MultiHeadAttentionInput input) const {
    input.query = x_;
    input.weights = Weights::per_head;
    return layer_.forward(input).weights;
  }
};

TEST_F(Masks, KeepAndDropAreOpposites) {
  const std::vector<bool> causal = {true, false, false, true, true, false, true, true, true};
  std::vector<bool> opposite = causal;
  opposite.flip();
  const Tensor kept = weights({.mask = Mask::keep(booleans(causal, {3, 3}))});
  expect_near(kept, weights({.mask = Mask::drop(booleans(opposite, {3, 3}))}), 0);
  expect_near(kept, weights({.causal = Causal::top_left}));
  EXPECT_EQ(kept.at({0, 0, 0, 1}), 0.0);
}

TEST_F(Masks, PaddingAtTheEndAndElsewhere) {
  const std::vector<bool> at_end = {true, true, false, true, false, false};
  const Tensor short_weights = weights({.key_padding_mask = Mask::keep(booleans(at_end, {2, 3}))});
  EXPECT_EQ(short_weights.at({0, 1, 2, 2}), 0.0);
  EXPECT_EQ(short_weights.at({1, 0, 0, 0}), 1.0);
  std::vector<bool> in_mask;  // the same as a mask of four dimensions
  for (int b = 0; b < 2; ++b) {
    for (int q = 0; q < 3; ++q) in_mask.insert(in_mask.end(), at_end.begin() + 3 * b, at_end.begin() + 3 * b + 3);
  }
  expect_near(short_weights, weights({.mask = Mask::keep(booleans(in_mask, {2, 1, 3, 3}))}));
  const Tensor holes =
      weights({.key_padding_mask = Mask::keep(booleans({false, true, true, true, false, true}, {2, 3}))});
  EXPECT_EQ(holes.at({0, 0, 1, 0}), 0.0);
  EXPECT_EQ(holes.at({1, 1, 1, 1}), 0.0);
  EXPECT_GT(holes.at({1, 1, 1, 2}), 0.0);
}

TEST_F(Masks, PaddingJoinsCausalityAndOtherMasks) {
  const Mask padding = Mask::keep(booleans({true, true, false, true, true, true}, {2, 3}));
  const Tensor joined = weights({.causal = Causal::bottom_right, .key_padding_mask = padding});
  EXPECT_EQ(joined.at({0, 0, 1, 2}), 0.0);
  EXPECT_EQ(joined.at({1, 0, 0, 0}), 1.0);
  EXPECT_GT(joined.at({0, 0, 1, 1}), 0.0);  // the padding shifts no query
  const std::vector<bool> causal = {true, false, false, true, true, false, true, true, true};
  expect_near(joined, weights({.key_padding_mask = padding, .mask = Mask::keep(booleans(causal, {3, 3}))}));
}

TEST_F(Masks, HeadsMayDiffer) {
  std::vector<bool> drop(2 * 3 * 3, false);
  drop[9 + 1] = true;  // head 1, query 0, key 1
  const Tensor by_head = weights({.mask = Mask::drop(booleans(drop, {1, 2, 3, 3}))});
  EXPECT_GT(by_head.at({0, 0, 0, 1}), 0.0);
  EXPECT_EQ(by_head.at({0, 1, 0, 1}), 0.0);
  EXPECT_EQ(by_head.at({1, 1, 0, 1}), 0.0);
  std::vector<bool> all(4 * 3 * 3, false);
  all[18 + 9 + 1] = true;  // batch 1, head 1
  const Tensor by_entry = weights({.mask = Mask::drop(booleans(all, {2, 2, 3, 3}))});
  EXPECT_GT(by_entry.at({0, 1, 0, 1}), 0.0);
  EXPECT_EQ(by_entry.at({1, 1, 0, 1}), 0.0);
}

TEST_F(Masks, ABiasIsAddedToTheScores) {
  const Tensor bias = random({3, 3}, 9);
  const Tensor with = weights({.bias = bias}), without = weights({});
  for (int q = 0; q < 3; ++q) {
    double total = 0;
    for (int k = 0; k < 3; ++k) total += without.at({0, 0, q, k}) * std::exp(bias.at({q, k}));
    for (int k = 0; k < 3; ++k) {
      EXPECT_NEAR(with.at({0, 0, q, k}), without.at({0, 0, q, k}) * std::exp(bias.at({q, k})) / total, 1e-14);
    }
  }
}

TEST_F(Masks, ExtraKeysAreSeenByEverybody) {
  const MultiHeadAttention layer(
      {.embed_dim = 4, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .dtype = DType::float64});
  const Mask padding = Mask::drop(booleans({false, true, true, true, true, true}, {2, 3}));
  const auto [output, weights] = layer.forward({.query = x_,
                                                .causal = Causal::top_left,
                                                .key_padding_mask = padding,
                                                .bias = random({3, 3}, 2),
                                                .weights = Weights::per_head});
  ASSERT_EQ(weights.shape().to_string(), "[2, 2, 3, 5]");
  const auto by_lengths = layer.forward({.query = x_,
                                         .causal = Causal::top_left,
                                         .key_lengths = {1, 0},
                                         .bias = random({3, 3}, 2),
                                         .weights = Weights::mean});
  expect_near(by_lengths.output, output, 0);
  EXPECT_NEAR(by_lengths.weights.at({0, 2, 4}), (weights.at({0, 0, 2, 4}) + weights.at({0, 1, 2, 4})) / 2, 1e-14);
  EXPECT_GT(weights.at({0, 0, 0, 3}), 0.0);
  EXPECT_GT(weights.at({0, 0, 0, 4}), 0.0);
  EXPECT_EQ(weights.at({0, 0, 2, 1}), 0.0);
  EXPECT_NEAR(weights.at({1, 1, 2, 3}) + weights.at({1, 1, 2, 4}), 1.0, 1e-14);
}

// Extra keys beside every way to mask: the softmax over all keys that are left, computed from the scores.
TEST_F(Masks, ExtraKeysBesideEveryMask) {
  const MultiHeadAttention layer(
      {.embed_dim = 4, .num_heads = 2, .add_bias_kv = true, .add_zero_attn = true, .dtype = DType::float64});
  const auto weights_of = [&](headway::MultiHeadAttentionInput input) {
    input.query = x_;
    input.weights = Weights::per_head;
    return layer.forward(input).weights;
  };
  const Tensor free = weights_of({});  // [2, 2, 3, 5]
  const Mask mask = Mask::keep(booleans({true, false, true, true, true, false, true, true, true}, {3, 3}));
  const Mask holes = Mask::keep(booleans({true, false, true, false, true, true}, {2, 3}));
  const auto seen = [&](int b, int q, int k, bool causal, bool by_mask, bool padded) {
    return k >= 3 || ((!causal || k <= q) && (!by_mask || mask.tensor().at({q, k}) != 0) &&
                      (!padded || holes.tensor().at({b, k}) != 0));
  };
  for (int way = 0; way < 8; ++way) {
    const bool causal = (way & 1) != 0, by_mask = (way & 2) != 0, padded = (way & 4) != 0;
    SCOPED_TRACE(way);
    const Tensor masked = weights_of({.causal = causal ? Causal::top_left : Causal::none,
                                      .key_padding_mask = padded ? holes : Mask(),
                                      .mask = by_mask ? mask : Mask()});
    for (int b = 0; b < 2; ++b) {
      for (int q = 0; q < 3; ++q) {
        double total = 0;
        for (int k = 0; k < 5; ++k) total += seen(b, q, k, causal, by_mask, padded) ? free.at({b, 1, q, k}) : 0;
        for (int k = 0; k < 5; ++k) {
          const double expected = seen(b, q, k, causal, by_mask, padded) ? free.at({b, 1, q, k}) / total : 0;
          EXPECT_NEAR(masked.at({b, 1, q, k}), expected, 1e-14) << b << q << k;
        }
      }
    }
  }
}

TEST_F(Masks, ShapesThatDoNotFitAreRefused) {
  const auto message = [&](const headway::MultiHeadAttentionInput& input) {
    return message_of([&] { weights(input); });
  };
  EXPECT_PRED2(contains, message({.mask = Mask::keep(booleans(std::vector<bool>(12), {3, 4}))}), "mask is bool[3, 4]");
  EXPECT_PRED2(contains, message({.mask = Mask::keep(booleans(std::vector<bool>(27), {3, 1, 3, 3}))}), "a batch of 2");
  // Two entries and two heads: neither is guessed.
  EXPECT_EQ(message({.mask = Mask::keep(booleans(std::vector<bool>(18), {2, 3, 3}))}),
            "MultiHeadAttention: mask is bool[2, 3, 3], expected [3, 3] or four dimensions [batch, heads, "
            "query_length, key_length]: unsqueeze(1) makes them of one matrix for each batch entry, unsqueeze(0) of "
            "one for each head");
  EXPECT_PRED2(contains, message({.bias = random({4, 3, 3}, 1)}), "bias is float64[4, 3, 3], expected [3, 3] or four");
  EXPECT_PRED2(contains, message({.mask = Mask::keep(random({3, 3}, 1))}), "expected booleans");
  EXPECT_PRED2(contains, message({.key_padding_mask = Mask::keep(booleans(std::vector<bool>(3), {3}))}),
               "key_padding_mask is bool[3], expected [2, 3]");
  EXPECT_PRED2(contains, message({.bias = random({2, 2}, 1)}), "bias is float64[2, 2]");
  const Mask padding = Mask::keep(booleans(std::vector<bool>(6), {2, 3}));
  EXPECT_PRED2(contains, message({.key_lengths = 2, .key_padding_mask = padding}), "both given");
  EXPECT_PRED2(contains, message({.key_lengths = {1, 4}}), "key_lengths[1] is 4, expected 0 to 3");
}

TEST_F(Masks, LengthsAreAPaddingMaskInShort) {
  const Mask padding = Mask::keep(booleans({true, true, false, true, false, false}, {2, 3}));
  for (const Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right}) {
    const Tensor expected = weights({.causal = causal, .key_padding_mask = padding});
    expect_near(weights({.causal = causal, .key_lengths = {2, 1}}), expected, 0);
    expect_near(weights({.causal = causal, .key_lengths = Tensor::from<std::int32_t>({2, 1}, {2})}), expected, 0);
  }
  expect_near(weights({.key_lengths = 2}), weights({.key_lengths = {2, 2}}), 0);
  const Tensor alone = random({3, 4}, 4);  // without a batch
  expect_near(
      layer_.forward({.query = alone, .key_lengths = 2}).output,
      layer_.forward({.query = alone, .key_padding_mask = Mask::keep(booleans({true, true, false}, {3}))}).output, 0);
}

// Padding in the middle beside a mask: the same as one mask of four dimensions that says both, whatever else is given.
TEST_F(Masks, PaddingInTheMiddleJoinsAMask) {
  const std::vector<bool> kept_keys = {true, false, true, false, true, true};               // [2, 3]
  const std::vector<bool> mask = {true, false, true, true, true, false, true, true, true};  // [3, 3]
  std::vector<bool> both;
  for (int b = 0; b < 2; ++b) {
    for (int q = 0; q < 3; ++q) {
      for (int k = 0; k < 3; ++k) both.push_back(mask[3 * q + k] && kept_keys[3 * b + k]);
    }
  }
  const Mask joined = Mask::keep(booleans(both, {2, 1, 3, 3}));
  std::vector<bool> dropped = kept_keys;
  dropped.flip();
  for (const Mask& padding : {Mask::keep(booleans(kept_keys, {2, 3})), Mask::drop(booleans(dropped, {2, 3}))}) {
    for (const Tensor& bias : {Tensor(), random({3, 3}, 9), random({1, 2, 3, 3}, 10)}) {
      const Mask apart = Mask::keep(booleans(mask, {3, 3}));
      expect_near(weights({.key_padding_mask = padding, .mask = apart, .bias = bias}),
                  weights({.mask = joined, .bias = bias}));
      expect_near(weights({.causal = Causal::top_left, .key_padding_mask = padding, .mask = apart, .bias = bias}),
                  weights({.causal = Causal::top_left, .mask = joined, .bias = bias}));
    }
  }
}

TEST_F(Masks, NaNInPaddedKeysReachesNothing) {
  const Mask padding = Mask::keep(booleans({true, false, true, false, true, true}, {2, 3}));
  const Mask mask = Mask::drop(booleans({false, false, true, false, false, false, false, false, false}, {3, 3}));
  const Tensor query = random({2, 3, 4}, 2), clean = random({2, 3, 4}, 3), dirty = clean.clone();
  dirty.select(0, 0).select(0, 1).fill(std::nan(""));
  dirty.select(0, 1).select(0, 0).fill(std::nan(""));
  for (const Mask& other : {Mask(), mask}) {
    const auto run = [&](const Tensor& key) {
      return layer_.forward({.query = query, .key = key, .key_padding_mask = padding, .mask = other}).output;
    };
    expect_near(run(dirty), run(clean));  // rows that NaN came near are computed again in another order
  }
}

// A bias may hold anything where its key is padding.
TEST_F(Masks, NaNInThePaddedColumnsOfABiasReachesNothing) {
  const Mask padding = Mask::keep(booleans({true, false, true, true, false, true}, {2, 3}));
  const Mask mask = Mask::drop(booleans({false, false, true, false, false, false, false, false, false}, {3, 3}));
  const Tensor clean = random({3, 3}, 5), dirty = clean.clone();
  dirty.select(1, 1).fill(std::nan(""));
  for (const Mask& other : {Mask(), mask}) {
    expect_near(weights({.key_padding_mask = padding, .mask = other, .bias = dirty}),
                weights({.key_padding_mask = padding, .mask = other, .bias = clean}), 0);
  }
}

// The gradient of a bias that padding joined: as where one mask says both.
TEST_F(Masks, PaddingLeavesABiasItsGradient) {
  const Mask padding = Mask::keep(booleans({true, false, true, false, true, true}, {2, 3}));
  const Mask mask = Mask::drop(booleans({false, false, true, false, false, false, false, false, false}, {3, 3}));
  const auto function = [&](const std::vector<Tensor>& in) {
    return layer_.forward({.query = x_, .key_padding_mask = padding, .mask = mask, .bias = in[0]}).output;
  };
  check_gradients(function, {random({3, 3}, 5)});
}

}  // namespace

// Steps of decoding beside the operations that they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "headway/attention.h"
#include "headway/ops.h"
#include "ops/decoding.h"
#include "ops/elementwise.h"
#include "support/message_of.h"

namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;
using namespace headway::internal;
using headway_test::message_of;
using Numbers = std::vector<std::int64_t>;

Tensor position_of(std::int64_t value) { return Tensor::from(Numbers{value}, {1}); }

void expect_near(const Tensor& found, const Tensor& expected, double tolerance = 1e-5) {
  ASSERT_EQ(found.shape(), expected.shape());
  const std::vector<double> a = found.to_vector(), b = expected.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << "at " << i;
}

// [rows, features] as [rows, heads, 1, head_dim].
Tensor as_heads(const Tensor& x, std::int64_t heads) {
  return x.contiguous().view({x.size(0), heads, 1, x.size(1) / heads});
}

TEST(Decoding, EmbedsTokens) {
  const Tensor weight = Tensor::randn({7, 6}, 1), positions = Tensor::randn({9, 6}, 2);
  const Tensor tokens = Tensor::from(Numbers{3, 0, 6}, {3});
  const Tensor expected = scale(embedding(weight, tokens), 2.0) + positions.select(0, 4);
  expect_near(embed_step(weight, tokens, positions, position_of(4), 2.0), expected);
  const Tensor beyond = embed_step(weight, Tensor::from(Numbers{7, 1}, {2}), positions, position_of(0));
  EXPECT_TRUE(std::isnan(beyond.at({0, 0})));
  EXPECT_FALSE(std::isnan(beyond.at({1, 0})));
  EXPECT_TRUE(std::isnan(embed_step(weight, tokens, positions, position_of(9)).at({0, 0})));
}

// Five steps of three rows that change places, beside attention over the past that each row has by then.
TEST(Decoding, SelfAttentionFollowsItsOrigins) {
  constexpr std::int64_t kRows = 3, kFeatures = 8, kHeads = 2, kCapacity = 5;
  headway::internal::TokenCache cache = {Tensor::zeros({kRows, kCapacity, 2 * kFeatures}),
                                         Tensor::zeros({kRows, kCapacity}, DType::int32)};
  std::vector<std::vector<Tensor>> past(kRows);  // per row: [1, 2 * features] of each token
  const std::vector<Numbers> parents = {{0, 1, 2}, {0, 0, 1}, {2, 1, 0}, {1, 1, 1}, {0, 2, 1}};
  for (std::int64_t t = 0; t < kCapacity; ++t) {
    const Tensor order = Tensor::from(parents[static_cast<std::size_t>(t)], {kRows});
    cache.origins.copy_from(gather_rows(cache.origins, order));
    std::vector<std::vector<Tensor>> moved;
    for (const std::int64_t parent : parents[static_cast<std::size_t>(t)]) {
      moved.push_back(past[static_cast<std::size_t>(parent)]);
    }
    past = moved;
    const Tensor projected = Tensor::randn({kRows, 3 * kFeatures}, static_cast<std::uint64_t>(t + 1));
    const Tensor found = self_attention_step(projected, cache, position_of(t), kHeads);
    for (std::int64_t row = 0; row < kRows; ++row) {
      auto& tokens = past[static_cast<std::size_t>(row)];
      tokens.push_back(projected.slice(0, row, row + 1).slice(1, kFeatures, 3 * kFeatures));
      const Tensor all = concat(tokens, 0);  // (tokens, 2 * features)
      const auto heads_of = [&](std::int64_t first) {
        return all.slice(1, first, first + kFeatures)
            .contiguous()
            .view({1, t + 1, kHeads, kFeatures / kHeads})
            .transpose(1, 2);
      };
      const Tensor query = as_heads(projected.slice(0, row, row + 1).slice(1, 0, kFeatures), kHeads);
      const Tensor expected = attention(query, heads_of(0), heads_of(kFeatures)).output;
      expect_near(found.slice(0, row, row + 1), expected.transpose(1, 2).reshape({1, kFeatures}));
    }
  }
}

TEST(Decoding, CrossAttentionSeesItsSentence) {
  constexpr std::int64_t kFeatures = 12, kHeads = 3;
  const Tensor memory = Tensor::randn({2, 6, 2 * kFeatures}, 1), query = Tensor::randn({4, kFeatures}, 2);
  const Numbers lengths = {6, 2};
  const std::vector<std::int32_t> source_of = {1, 0, 0, 1};
  const Tensor found =
      cross_attention_step(query, {memory, Tensor::from(lengths, {2}), Tensor::from(source_of, {4})}, kHeads);
  for (std::int64_t row = 0; row < 4; ++row) {
    const std::int32_t sentence = source_of[static_cast<std::size_t>(row)];
    const std::int64_t length = lengths[static_cast<std::size_t>(sentence)];
    const Tensor all = memory.select(0, sentence).slice(0, 0, length);
    const auto heads_of = [&](std::int64_t first) {
      return all.slice(1, first, first + kFeatures).contiguous().view({1, length, kHeads, 4}).transpose(1, 2);
    };
    const Tensor expected =
        attention(as_heads(query.slice(0, row, row + 1), kHeads), heads_of(0), heads_of(kFeatures)).output;
    expect_near(found.slice(0, row, row + 1), expected.transpose(1, 2).reshape({1, kFeatures}));
  }
}

// Heads of any size, sources of any length, also none; every dtype.
TEST(Decoding, CrossAttentionOfAnySize) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const std::int64_t head_dim : {1, 3, 16, 32, 37, 64}) {
      constexpr std::int64_t kHeads = 2, kLength = 70;
      const Numbers lengths = {0, 1, 2, 5, 33, kLength};
      const auto rows = static_cast<std::int64_t>(lengths.size());
      const std::int64_t features = kHeads * head_dim;
      const Tensor memory = Tensor::randn({rows, kLength, 2 * features}, 1).to(dtype);
      const Tensor query = scale(Tensor::randn({rows, features}, 2), 3.0).to(dtype);
      const std::vector<std::int32_t> source_of = {0, 1, 2, 3, 4, 5};
      const Tensor found =
          cross_attention_step(query, {memory, Tensor::from(lengths, {rows}), Tensor::from(source_of, {rows})}, kHeads);
      const auto heads_of = [&](const Tensor& x) {  // (rows, length, features) in float64
        return x.to(DType::float64).contiguous().view({rows, x.size(1), kHeads, head_dim}).transpose(1, 2);
      };
      const Tensor expected =
          attention(heads_of(query.view({rows, 1, features})), heads_of(memory.slice(2, 0, features)),
                    heads_of(memory.slice(2, features, 2 * features)), {.key_lengths = Tensor::from(lengths, {rows})})
              .output.transpose(1, 2)
              .reshape({rows, features});
      SCOPED_TRACE(std::to_string(static_cast<int>(dtype)) + ", " + std::to_string(head_dim));
      const double exact = dtype == DType::float64 ? 1e-12 : 1e-5;
      expect_near(found, expected, dtype == DType::bfloat16 ? 2e-2 : dtype == DType::float16 ? 2e-3 : exact);
    }
  }
}

// A packed weight gives what linear() gives, for few rows and many, whole panels and parts of them.
TEST(Decoding, PackedWeightsGiveTheSameProducts) {
  using headway::Activation;
  for (const std::int64_t rows : {1, 3, 8, 33, 300}) {
    for (const std::int64_t outputs : {1, 31, 64, 515}) {
      for (const std::int64_t inputs : {1, 24, 1100}) {
        SCOPED_TRACE(std::to_string(rows) + ", " + std::to_string(outputs) + ", " + std::to_string(inputs));
        const Tensor x = Tensor::randn({rows, inputs}, 1), bias = Tensor::randn({outputs}, 3);
        const Tensor weight = scale(Tensor::randn({outputs, inputs}, 2), 1 / std::sqrt(static_cast<double>(inputs)));
        const headway::internal::PackedWeight packed = pack_weight(weight, bias);
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
          expect_near(linear_step(x, packed, activation), linear(x, weight, bias, activation), 5e-5);
        }
        const Tensor added = Tensor::randn({rows, outputs}, 4);
        expect_near(linear_step(x, packed, Activation::none, added), add(added, linear(x, weight, bias)), 5e-5);
      }
    }
  }
  for (const DType dtype : {DType::float64, DType::bfloat16, DType::float16}) {
    const Tensor x = Tensor::randn({5, 48}, 1).to(dtype), weight = Tensor::randn({70, 48}, 2).to(dtype);
    const Tensor bias = Tensor::randn({70}, 3).to(dtype);
    const headway::internal::PackedWeight packed = pack_weight(weight, bias);
    const Tensor expected = linear(x, weight, bias), added = Tensor::randn({5, 70}, 4).to(dtype);
    const double tolerance = dtype == DType::bfloat16 ? 0.15 : dtype == DType::float16 ? 0.02 : 1e-9;  // a rounding
    expect_near(linear_step(x, packed), expected, tolerance);
    expect_near(linear_step(x, packed, headway::Activation::none, added), add(added, expected), tolerance);
  }
}

TEST(Decoding, MovesATensorTowardsAnother) {
  for (const std::int64_t count : {1, 100, 100'000}) {
    const Tensor target = Tensor::randn({count}, 1), source = Tensor::randn({count}, 2);
    const Tensor expected = target + scale(source - target, 0.25);
    const std::uint64_t version = target.version();
    lerp_into(target, source, 0.25);
    EXPECT_EQ(target.to_vector(), expected.to_vector());
    EXPECT_GT(target.version(), version);
  }
  EXPECT_EQ(message_of([&] { lerp_into(Tensor::zeros({2}), Tensor::zeros({3}), 0.5); }),
            "lerp_into: source is float32[3], expected float32[2]");
}

TEST(Decoding, TopTokensAreInOrder) {
  const Tensor logits = Tensor::from(std::vector<float>{1, 5, 5, 2, 9, 0, 0, -INFINITY, 0, 3}, {2, 5});
  const headway::internal::TopTokens top = {Tensor::zeros({2, 4}, DType::int64), Tensor::zeros({2, 4}),
                                            Tensor::zeros({2})};
  top_tokens(logits, 4, top);
  EXPECT_EQ(top.tokens.to_vector(), (std::vector<double>{1, 2, 3, 0, 0, 1, 3, -1}));
  EXPECT_EQ(top.logits.at({0, 2}), 2.0);
  EXPECT_EQ(top.logits.at({1, 3}), -std::numeric_limits<double>::infinity());
  EXPECT_NEAR(top.logsumexp.at({1}), std::log(3 + std::exp(3.0)), 1e-6);

  const Tensor newest = Tensor::zeros({2}, DType::int64), position = position_of(1);
  const headway::internal::GreedyHistory history = {Tensor::zeros({3, 2}, DType::int64), Tensor::zeros({3, 2})};
  take_best(top, newest, history, position);
  EXPECT_EQ(newest.to_vector(), (std::vector<double>{1, 0}));
  EXPECT_EQ(history.tokens.to_vector(), (std::vector<double>{0, 0, 1, 0, 0, 0}));
  EXPECT_NEAR(history.scores.at({1, 1}), -std::log(3 + std::exp(3.0)), 1e-6);
  EXPECT_EQ(position.item(), 2.0);
}

TEST(Decoding, GathersRows) {
  const Tensor source = Tensor::randn({4, 2, 3}, 1);
  const Tensor found = gather_rows(source, Tensor::from(Numbers{3, 3, 9, 0}, {4}));
  EXPECT_EQ(found.select(0, 1).to_vector(), source.select(0, 3).to_vector());
  EXPECT_EQ(found.select(0, 2).to_vector(), std::vector<double>(6, 0.0));
  EXPECT_EQ(found.select(0, 3).to_vector(), source.select(0, 0).to_vector());
}

TEST(Decoding, BadArgumentsAreNamed) {
  const Tensor x = Tensor::zeros({2, 12});
  EXPECT_EQ(message_of([&] { gather_rows(x, Tensor::zeros({2})); }),
            "gather_rows: indices is float32[2], expected int64[2]");
  EXPECT_EQ(
      message_of([&] {
        self_attention_step(x, {Tensor::zeros({1, 5, 8}), Tensor::zeros({2, 5}, DType::int32)}, position_of(0), 2);
      }),
      "self_attention_step: keys_values is float32[1, 5, 8], expected an entry for each of the 2 rows");
  EXPECT_EQ(message_of([&] {
              cross_attention_step(x, {Tensor::zeros({1, 5, 8}), Tensor(), Tensor()}, 2);
            }),
            "cross_attention_step: keys_values is float32[1, 5, 8], expected float32[entries, length, 24]");
  EXPECT_EQ(message_of([&] { top_tokens(x, 12, {}); }), "top_tokens: excluded is 12, expected one of the 12 classes");
}

}  // namespace

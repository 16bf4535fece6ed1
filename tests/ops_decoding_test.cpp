// Steps of decoding beside the operations that they are made of.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "headway/attention.h"
#include "headway/ops.h"
#include "ops/decoding.h"
#include "ops/elementwise.h"
#include "support/cases.h"
#include "support/message_of.h"

namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;
using namespace headway::internal;
using headway_test::message_of;
using Numbers = std::vector<std::int64_t>;

// One position for all of some rows.
Tensor positions_of(std::int64_t value, std::int64_t rows) {
  return Tensor::from(Numbers(static_cast<std::size_t>(rows), value), {rows});
}

StepScores scores_of(std::int64_t heads, std::int64_t head_dim) {
  return {
      .heads = heads, .kv_heads = heads, .head_dim = head_dim, .scale = 1 / std::sqrt(static_cast<double>(head_dim))};
}

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
  expect_near(embed_step(weight, tokens, positions, positions_of(4, 3), 2.0), expected);
  expect_near(embed_step(weight, tokens, {}, {}, 2.0), scale(embedding(weight, tokens), 2.0));
  const Tensor apart = embed_step(weight, tokens, positions, Tensor::from(Numbers{8, 0, 2}, {3}));
  expect_near(apart.slice(0, 2, 3), embedding(weight, Tensor::from(Numbers{6}, {1})) + positions.select(0, 2));
  const Tensor beyond = embed_step(weight, Tensor::from(Numbers{7, 1}, {2}), positions, positions_of(0, 2));
  EXPECT_TRUE(std::isnan(beyond.at({0, 0})));
  EXPECT_FALSE(std::isnan(beyond.at({1, 0})));
  EXPECT_TRUE(std::isnan(embed_step(weight, tokens, positions, positions_of(9, 3)).at({0, 0})));
}

// Five steps of three rows that change places, beside attention over the past that each row has by then.
TEST(Decoding, SelfAttentionFollowsItsOrigins) {
  constexpr std::int64_t kRows = 3, kFeatures = 8, kHeads = 2, kCapacity = 5;
  headway::internal::CacheAppend cache = {.cache = Tensor::zeros({kRows, kCapacity, 2 * kFeatures}),
                                          .origins = Tensor::zeros({kRows, kCapacity}, DType::int32),
                                          .heads = kHeads,
                                          .kv_heads = kHeads,
                                          .head_dim = kFeatures / kHeads};
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
    cache.projected = projected;
    cache.positions = positions_of(t, kRows);
    const Tensor found = self_attention_step(cache, scores_of(kHeads, kFeatures / kHeads));
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
  const Tensor found = cross_attention_step(query, {memory, Tensor::from(lengths, {2}), Tensor::from(source_of, {4})},
                                            scores_of(kHeads, kFeatures / kHeads));
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

// What BlockOptions can ask of the scores.
struct ScoreCase {
  const char* name;
  std::int64_t heads = 4, kv_heads = 2, head_dim = 8;
  double softcap = 0;
  std::int64_t window = -1;
  bool alibi = false, distance_bias = false, sinks = false, norms = false;
  std::int64_t rotated = 0;
  bool interleaved = false;
};

// Rows of different lengths over shared entries, beside rms_norm(), rotary() and attention().
void check_scores(const ScoreCase& c, DType dtype, double tolerance) {
  SCOPED_TRACE(std::string(c.name) + ", " + std::to_string(static_cast<int>(dtype)));
  constexpr std::int64_t kCapacity = 24;
  const std::int64_t group = c.heads / c.kv_heads, kv = c.kv_heads * c.head_dim, width = c.heads * c.head_dim + 2 * kv;
  const Numbers lengths = {1, 6, 19};  // before the new token
  const auto rows = static_cast<std::int64_t>(lengths.size());
  CacheAppend append = {.projected = Tensor::randn({rows, width}, 1).to(dtype),
                        .positions = Tensor::from(lengths, {rows}),
                        .entries = Tensor::from(std::vector<std::int32_t>{2, 0, 1}, {rows}),
                        .cache = Tensor::randn({4, kCapacity, 2 * kv}, 2).to(dtype),
                        .origins = Tensor::full({rows, kCapacity}, 3, DType::int32),
                        .heads = c.heads,
                        .kv_heads = c.kv_heads,
                        .head_dim = c.head_dim,
                        .norm_epsilon = 1e-6,
                        .interleaved = c.interleaved};
  if (c.norms) {
    append.query_norm = Tensor::uniform({c.head_dim}, 0.5, 2, 3).to(dtype);
    append.key_norm = Tensor::uniform({c.head_dim}, 0.5, 2, 4).to(dtype);
  }
  if (c.rotated > 0) {
    append.rotation = Tensor::zeros({kCapacity, c.rotated});
    for (std::int64_t p = 0; p < kCapacity; ++p) {
      for (std::int64_t i = 0; i < c.rotated / 2; ++i) {
        const double angle =
            static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(c.rotated));
        append.rotation.data<float>()[p * c.rotated + i] = static_cast<float>(std::cos(angle));
        append.rotation.data<float>()[p * c.rotated + c.rotated / 2 + i] = static_cast<float>(std::sin(angle));
      }
    }
  }
  StepScores scores = {.heads = c.heads, .kv_heads = c.kv_heads, .head_dim = c.head_dim, .scale = 0.7};
  scores.softcap = c.softcap;
  scores.window = c.window;
  if (c.alibi) scores.alibi_slopes = Tensor::uniform({c.heads}, 0, 1, 5);
  if (c.distance_bias) scores.distance_bias = Tensor::randn({c.heads, 5}, 6);
  if (c.sinks) scores.sinks = Tensor::randn({c.heads}, 7);

  const Tensor before = append.cache.clone(), projected = append.projected.clone();
  const Tensor found = self_attention_step(append, scores);
  const auto exact = [](const Tensor& x) { return x.to(DType::float64); };
  const auto prepared = [&](Tensor heads, const Tensor& norm, std::int64_t position) {  // [1, heads, 1, head_dim]
    if (norm.defined()) heads = rms_norm(heads, exact(norm), 1e-6);
    if (c.rotated == 0) return heads;
    return rotary(heads, {.dims = c.rotated, .interleaved = c.interleaved, .offset = position});
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t length = lengths[static_cast<std::size_t>(row)];
    const Tensor all = exact(projected).slice(0, row, row + 1).view({1, c.heads + 2 * c.kv_heads, 1, c.head_dim});
    const Tensor query = prepared(all.slice(1, 0, c.heads).contiguous(), append.query_norm, length);
    const Tensor fresh = prepared(all.slice(1, c.heads, c.heads + c.kv_heads).contiguous(), append.key_norm, length);
    const Tensor past = exact(before.select(0, 3))
                            .slice(0, 0, length)
                            .contiguous()
                            .view({1, length, 2 * c.kv_heads, c.head_dim})
                            .transpose(1, 2);
    const Tensor key = headway::concat({past.slice(1, 0, c.kv_heads), fresh}, 2);
    const Tensor value = headway::concat(
        {past.slice(1, c.kv_heads, 2 * c.kv_heads), all.slice(1, c.heads + c.kv_heads, c.heads + 2 * c.kv_heads)}, 2);
    headway::AttentionOptions options = {.causal = headway::Causal::bottom_right, .scale = 0.7};
    if (c.window >= 0) options.window.left = c.window;
    if (c.softcap > 0) options.softcap = c.softcap;
    if (c.alibi) options.alibi_slopes = scores.alibi_slopes;
    if (c.sinks) options.sinks = scores.sinks;
    if (c.distance_bias) {
      options.bias = Tensor::zeros({1, c.heads, 1, length + 1}, DType::float64);
      for (std::int64_t head = 0; head < c.heads; ++head) {
        for (std::int64_t t = 0; t <= length; ++t) {
          options.bias.data<double>()[head * (length + 1) + t] =
              scores.distance_bias.at({head, std::min<std::int64_t>(length - t, 4)});
        }
      }
    }
    const Tensor expected =
        attention(query, key, value, options).output.transpose(1, 2).reshape({1, c.heads * c.head_dim});
    expect_near(found.slice(0, row, row + 1), expected, tolerance);
    const std::int64_t entry = static_cast<std::int64_t>(append.entries.at({row}));
    expect_near(append.cache.select(0, entry).slice(0, length, length + 1).slice(1, 0, kv),
                fresh.transpose(1, 2).reshape({1, kv}), tolerance);
    EXPECT_EQ(append.origins.at({row, length}), static_cast<double>(entry));
  }
  EXPECT_EQ(group * c.kv_heads, c.heads);
}

TEST(Decoding, SelfAttentionOfEveryKind) {
  const std::vector<ScoreCase> cases = {
      {.name = "plain"},
      {.name = "one head", .heads = 1, .kv_heads = 1, .head_dim = 5},
      {.name = "softcap", .softcap = 2.0},
      {.name = "window", .window = 3},
      {.name = "window of one", .window = 0},
      {.name = "alibi", .alibi = true},
      {.name = "distance bias", .distance_bias = true},
      {.name = "sinks", .sinks = true},
      {.name = "norms", .norms = true},
      {.name = "rotary", .rotated = 8},
      {.name = "some rotary", .head_dim = 20, .rotated = 12},
      {.name = "interleaved", .rotated = 6, .interleaved = true},
      {.name = "all",
       .heads = 6,
       .kv_heads = 2,
       .head_dim = 64,
       .softcap = 5,
       .window = 7,
       .alibi = true,
       .distance_bias = true,
       .sinks = true,
       .norms = true,
       .rotated = 64},
  };
  for (const ScoreCase& c : cases) {
    check_scores(c, DType::float32, 2e-5);
    check_scores(c, DType::float64, 1e-6);
    check_scores(c, DType::bfloat16, 5e-2);
  }
}

TEST(Decoding, NormsAndGatesOfProducts) {
  using headway::Activation;
  for (const std::int64_t rows : {1, 7, 130}) {
    const Tensor x = Tensor::randn({rows, 24}, 1), weight = Tensor::randn({36, 24}, 2), bias = Tensor::randn({36}, 3);
    const Tensor gain = Tensor::uniform({24}, 0.5, 2, 4), shift = Tensor::randn({24}, 5);
    const PackedWeight with_bias = pack_weight(weight, bias), without = pack_weight(weight, {});
    expect_near(linear_step(x, without), linear(x, weight), 5e-5);
    expect_near(linear_step(x, without, {.added = linear(x, weight)}), scale(linear(x, weight), 2.0), 5e-5);
    const StepNormWeights layer = {.kind = StepNorm::layer, .weight = gain, .bias = shift, .epsilon = 1e-3};
    expect_near(linear_step(x, with_bias, {.norm = layer}), linear(layer_norm(x, gain, shift, 1e-3), weight, bias),
                5e-5);
    const StepNormWeights rms = {.kind = StepNorm::rms, .weight = gain, .epsilon = 1e-2};
    const Tensor y = linear(rms_norm(x, gain, 1e-2), weight, bias);
    expect_near(linear_step(x, with_bias, {.norm = rms, .activation = Activation::silu, .gated = true}),
                mul(silu(y.slice(1, 0, 18)), y.slice(1, 18, 36)), 5e-5);
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
      const Tensor found = cross_attention_step(
          query, {memory, Tensor::from(lengths, {rows}), Tensor::from(source_of, {rows})}, scores_of(kHeads, head_dim));
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
    if (headway_test::reduced() && rows == 300) continue;
    for (const std::int64_t outputs : {1, 31, 64, 515}) {
      for (const std::int64_t inputs : {1, 24, 1100}) {
        SCOPED_TRACE(std::to_string(rows) + ", " + std::to_string(outputs) + ", " + std::to_string(inputs));
        const Tensor x = Tensor::randn({rows, inputs}, 1), bias = Tensor::randn({outputs}, 3);
        const Tensor weight = scale(Tensor::randn({outputs, inputs}, 2), 1 / std::sqrt(static_cast<double>(inputs)));
        const headway::internal::PackedWeight packed = pack_weight(weight, bias);
        for (const Activation activation : {Activation::none, Activation::relu, Activation::gelu}) {
          expect_near(linear_step(x, packed, {.activation = activation}), linear(x, weight, bias, activation), 5e-5);
        }
        const Tensor added = Tensor::randn({rows, outputs}, 4);
        expect_near(linear_step(x, packed, {.added = added}), add(added, linear(x, weight, bias)), 5e-5);
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
    expect_near(linear_step(x, packed, {.added = added}), add(added, expected), tolerance);
  }
}

// Weights of 16 bits are read as they lie; the sums are float32.
TEST(Decoding, FewRowsOf16Bits) {
  using headway::Activation;
  for (const DType dtype : {DType::bfloat16, DType::float16}) {
    const double tolerance = dtype == DType::bfloat16 ? 0.06 : 0.01;
    for (const std::int64_t rows : {1, 2, 3}) {
      for (const std::int64_t outputs : {2, 30, 518}) {
        for (const std::int64_t inputs : {1, 37, 256}) {
          const Tensor x = Tensor::randn({rows, inputs}, 1).to(dtype), bias = Tensor::randn({outputs}, 2).to(dtype);
          const double size = 1 / std::sqrt(static_cast<double>(inputs));
          const Tensor weight = scale(Tensor::randn({outputs, inputs}, 3), size).to(dtype);
          const PackedWeight packed = pack_weight(weight, bias), bare = pack_weight(weight, {});
          const auto exact = [](const Tensor& tensor) { return tensor.to(DType::float32); };
          const Tensor expected = linear(exact(x), exact(weight), exact(bias));
          expect_near(linear_step(x, packed), expected, tolerance);
          expect_near(linear_step(x, bare), linear(exact(x), exact(weight)), tolerance);
          expect_near(linear_step(x, packed, {.activation = Activation::relu}), relu(expected), tolerance);
          const Tensor added = Tensor::randn({rows, outputs}, 4).to(dtype);
          expect_near(linear_step(x, packed, {.added = added}), add(exact(added), expected), tolerance);
          const Tensor gated = mul(silu(expected.slice(1, 0, outputs / 2)), expected.slice(1, outputs / 2, outputs));
          expect_near(linear_step(x, packed, {.activation = Activation::silu, .gated = true}), gated, 2 * tolerance);
        }
      }
    }
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

  const Tensor newest = Tensor::zeros({2}, DType::int64), positions = Tensor::from(Numbers{5, 7}, {2}),
               step = Tensor::from(Numbers{1}, {1});
  const headway::internal::TokenHistory history = {Tensor::zeros({3, 2}, DType::int64), Tensor::zeros({3, 2})};
  take_best({top, newest, history, positions, step});
  EXPECT_EQ(newest.to_vector(), (std::vector<double>{1, 0}));
  EXPECT_EQ(history.tokens.to_vector(), (std::vector<double>{0, 0, 1, 0, 0, 0}));
  EXPECT_NEAR(history.scores.at({1, 1}), -std::log(3 + std::exp(3.0)), 1e-6);
  EXPECT_EQ(step.item(), 2.0);
  EXPECT_EQ(positions.to_vector(), (std::vector<double>{6, 8}));
}

TopTokens sampled(const Tensor& logits, const SampleRule& rule, std::int64_t step = 0) {
  const std::int64_t rows = logits.size(0);
  Numbers sequences(static_cast<std::size_t>(rows));
  std::iota(sequences.begin(), sequences.end(), 0);
  const TopTokens top = {Tensor::zeros({rows, 1}, DType::int64), Tensor::zeros({rows, 1}), Tensor::zeros({rows})};
  sample_tokens({.logits = logits,
                 .rule = rule,
                 .sequences = Tensor::from(sequences, {rows}),
                 .step = Tensor::from(Numbers{step}, {1}),
                 .top = top});
  return top;
}

// How often each class is drawn, beside its probability.
TEST(Decoding, DrawsFollowTheDistribution) {
  constexpr std::int64_t kRows = 20000;
  const std::vector<float> logits = {0.0f, 2.0f, 1.0f, -1.0f, 1.5f};
  const auto shares = [&](const SampleRule& rule) {
    const Tensor rows = Tensor::from(logits, {1, 5}).expand({kRows, 5}).contiguous();
    std::vector<double> counts(5);
    for (const double token : sampled(rows, rule).tokens.to_vector())
      counts[static_cast<std::size_t>(token)] += 1.0 / kRows;
    return counts;
  };
  const auto expected = [&](double temperature, const std::vector<bool>& kept) {
    std::vector<double> p(5);
    double sum = 0;
    for (std::size_t i = 0; i < 5; ++i)
      sum += p[i] = kept[i] ? std::exp(static_cast<double>(logits[i]) / temperature) : 0;
    for (double& value : p) value /= sum;
    return p;
  };
  const auto check = [&](const SampleRule& rule, const std::vector<bool>& kept) {
    const std::vector<double> found = shares(rule), wanted = expected(rule.temperature, kept);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(found[i], wanted[i], 0.015) << i;
      if (!kept[i]) {
        EXPECT_EQ(found[i], 0.0) << i;
      }
    }
  };
  check({.seed = 1}, {true, true, true, true, true});
  check({.temperature = 0.5, .seed = 2}, {true, true, true, true, true});
  check({.top_k = 2, .seed = 3}, {false, true, false, false, true});
  // The probabilities are 0.064, 0.474, 0.174, 0.024, 0.288 at a temperature of one.
  check({.top_p = 0.7, .seed = 4}, {false, true, false, false, true});
  check({.top_p = 0.8, .seed = 5}, {false, true, true, false, true});
  check({.top_p = 0.01, .seed = 6}, {false, true, false, false, false});
  check({.min_p = 0.3, .seed = 7}, {false, true, true, false, true});
  check({.top_k = 4, .top_p = 0.9, .min_p = 0.5, .seed = 8}, {false, true, false, false, true});
}

TEST(Decoding, DrawsAreTheSameForTheSameSeedStepAndSequence) {
  const Tensor logits = Tensor::randn({40, 3000}, 1);
  const SampleRule rule = {.temperature = 2.0, .top_p = 0.95, .seed = 11};
  const TopTokens all = sampled(logits, rule, 3);
  EXPECT_EQ(sampled(logits.slice(0, 0, 7), rule, 3).tokens.to_vector(), all.tokens.slice(0, 0, 7).to_vector());
  EXPECT_NE(sampled(logits, rule, 4).tokens.to_vector(), all.tokens.to_vector());
  for (std::int64_t row = 0; row < 40; ++row) {
    const auto token = static_cast<std::int64_t>(all.tokens.at({row, 0}));
    EXPECT_EQ(all.logits.at({row, 0}), logits.at({row, token}));
  }
  const Tensor nothing = Tensor::full({1, 9}, -INFINITY);
  EXPECT_EQ(sampled(nothing, rule).tokens.at({0, 0}), -1.0);
  EXPECT_EQ(message_of([&] { sampled(logits, {.temperature = 0}); }),
            "sample_tokens: temperature is 0, expected a positive number");
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
  const CacheAppend append = {.projected = x,
                              .positions = positions_of(0, 2),
                              .cache = Tensor::zeros({1, 5, 8}),
                              .origins = Tensor::zeros({2, 5}, DType::int32),
                              .heads = 2,
                              .kv_heads = 2,
                              .head_dim = 2};
  EXPECT_EQ(message_of([&] { self_attention_step(append, scores_of(2, 2)); }),
            "self_attention_step: keys_values is float32[1, 5, 8], expected an entry for each of the 2 rows");
  EXPECT_EQ(message_of([&] {
              cross_attention_step(x, {Tensor::zeros({1, 5, 8}), Tensor(), Tensor()}, scores_of(2, 6));
            }),
            "cross_attention_step: keys_values is float32[1, 5, 8], expected float32[entries, length, 24]");
  EXPECT_EQ(message_of([&] { self_attention_step({.projected = x, .heads = 3, .kv_heads = 2, .head_dim = 2}, {}); }),
            "self_attention_step: heads is 3, expected a multiple of kv_heads, which is 2");
  EXPECT_EQ(message_of([&] { top_tokens(x, 12, {}); }), "top_tokens: excluded is 12, expected one of the 12 classes");
}

}  // namespace

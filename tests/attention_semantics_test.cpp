// Fixed semantics: rows whose keys are all masked, masked NaN and infinity, extreme scores.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/bits.h"
#include "support/cases.h"
#include "support/reference.h"

namespace headway_test {
namespace {

using std::int64_t;

Case shaped(DType dtype, int64_t queries, int64_t keys) { return sized(dtype, 2, 2, {queries, keys, 32, 24}); }

// Rows [b, h, i] of query and of key.
struct HiddenRows {
  struct Row {
    int64_t b, h, i;
  };
  std::vector<Row> queries, keys;
};

// The queries that see no key, and the keys that no query sees.
HiddenRows hidden_rows(const AttentionBackward& p) {
  AttentionBackward probe = p;
  probe.query = p.query.to(DType::float32);  // the fastest reference: what is visible depends on no number
  probe.options.weights = Weights::per_head;
  probe.options.weights_of = WeightsOf::masked;
  const std::vector<double> masked = reference_forward(probe).weights;
  const int64_t batch = p.query.size(0), heads = p.query.size(1), kv_heads = p.key.size(1);
  const int64_t queries = p.query.size(2), keys = p.key.size(2);
  std::vector<char> key_seen(static_cast<size_t>(batch * kv_heads * keys));
  HiddenRows hidden;
  for (int64_t b = 0, row = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < queries; ++i, ++row) {
        bool sees = false;
        for (int64_t j = 0; j < keys; ++j) {
          if (masked[static_cast<size_t>(row * keys + j)] == -kInfinity) continue;
          sees = true;
          key_seen[static_cast<size_t>((b * kv_heads + h / (heads / kv_heads)) * keys + j)] = 1;
        }
        if (!sees) hidden.queries.push_back({b, h, i});
      }
    }
  }
  for (int64_t b = 0, key = 0; b < batch; ++b) {
    for (int64_t h = 0; h < kv_heads; ++h) {
      for (int64_t j = 0; j < keys; ++j, ++key) {
        if (!key_seen[static_cast<size_t>(key)]) hidden.keys.push_back({b, h, j});
      }
    }
  }
  return hidden;
}

// The problem with `poison` in its hidden queries (and their gradients), keys and values.
AttentionBackward poisoned(AttentionBackward p, const HiddenRows& hidden, double poison) {
  p.query = p.query.clone();
  p.key = p.key.clone();
  p.value = p.value.clone();
  if (p.d_output.defined()) p.d_output = p.d_output.clone();
  for (const auto& [b, h, i] : hidden.queries) {
    fill_row(p.query, b, h, i, poison);
    if (p.d_output.defined()) fill_row(p.d_output, b, h, i, poison);
  }
  for (const auto& [b, h, i] : hidden.keys) {
    fill_row(p.key, b, h, i, poison);
    fill_row(p.value, b, h, i, poison);
  }
  return p;
}

// Masked keys and values do not affect the result, whatever they hold, and no result is NaN.
void expect_poison_stays_hidden(const AttentionBackward& clean, DType dtype) {
  const Named expected = run(clean);
  const HiddenRows hidden = hidden_rows(clean);
  EXPECT_FALSE(hidden.queries.empty() && hidden.keys.empty()) << "nothing is hidden: the case tests nothing";
  const double largest = dtype == DType::float16 ? 65504 : dtype == DType::float64 ? 1e300 : 3e38;
  std::vector<double> poisons = {std::nan(""), kInfinity, -kInfinity, largest};
  if (reduced()) poisons.resize(1);
  for (double poison : poisons) {
    const Named actual = run(poisoned(clean, hidden, poison));
    for (size_t n = 0; n < actual.size(); ++n) {
      EXPECT_TRUE(near(actual[n].second, expected[n].second, tolerance_of(dtype)))
          << actual[n].first << " with " << poison << " in what is masked";
      if (!actual[n].second.defined()) continue;
      for (double value : actual[n].second.to_vector()) ASSERT_FALSE(std::isnan(value)) << actual[n].first;
    }
  }
}

// Hides keys 3, 50 to 79 and the last ten from all queries, and every key from query 5 and from the last query.
std::vector<bool> keep_pattern(int64_t queries, int64_t keys) {
  std::vector<bool> keep;
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const bool key_hidden = j == 3 || (j >= 50 && j < 80) || j >= keys - 10;
      keep.push_back(!key_hidden && i != 5 && i != queries - 1);
    }
  }
  return keep;
}

Tensor bias_pattern(int64_t queries, int64_t keys, DType dtype) {
  std::vector<double> bias;
  for (bool keep : keep_pattern(queries, keys)) bias.push_back(keep ? 0.25 : -kInfinity);
  return Tensor::from(bias, {1, 1, queries, keys}).to(dtype);
}

// Long enough for whole vectors and several tiles.
std::vector<int> hidden_lengths() { return reduced() ? std::vector<int>{130} : std::vector<int>{200, 500}; }

class Hidden : public testing::TestWithParam<std::tuple<DType, int>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  int64_t length() const { return std::get<1>(GetParam()); }
  AttentionBackward problem(int64_t queries, int64_t keys) const { return build(shaped(dtype(), queries, keys)); }
};

TEST_P(Hidden, ByMask) {
  AttentionBackward p = problem(length(), length() + 3);
  p.options.mask = Mask::keep(Tensor::from(keep_pattern(length(), length() + 3), {length(), length() + 3}));
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, ByBias) {
  AttentionBackward p = problem(length(), length());
  p.options.bias = bias_pattern(length(), length(), dtype());
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, ByKeyLengths) {
  AttentionBackward p = problem(length(), length());
  p.options.key_lengths = {length() - 37, 0};
  expect_poison_stays_hidden(p, dtype());
  p.options.sinks = Tensor::from<float>({0.5f, -1.0f}, {2});
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, ByCausal) {
  // More keys than queries, aligned at the top left: no query sees the last keys.
  AttentionBackward p = problem(length() - 61, length());
  p.options.causal = headway::Causal::top_left;
  expect_poison_stays_hidden(p, dtype());
  // More queries than keys, aligned at the bottom right: the first queries see nothing.
  p = problem(length(), length() - 61);
  p.options.causal = headway::Causal::bottom_right;
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, ByWindow) {
  AttentionBackward p = problem(length(), length());
  p.options.window = {20, 5};
  p.options.query_offset = length() / 2;
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, InPackedBatches) {
  Case c = shaped(dtype(), length() / 2, length() / 2);
  c.packed = true;
  c.batch = 4;
  AttentionBackward p = build(c);
  p.options.key_lengths = {0, 11, 0, 5};
  p.options.cu_query_lengths = {0, 40, 55, 55, p.query.size(2)};
  p.options.cu_key_lengths = {0, 20, 45, 50, p.key.size(2)};
  expect_poison_stays_hidden(p, dtype());
}

TEST_P(Hidden, FromOneQuery) {
  AttentionBackward p = problem(1, 4 * length());
  p.options.key_lengths = {3 * length() + 1, length()};
  expect_poison_stays_hidden(p, dtype());
}

INSTANTIATE_TEST_SUITE_P(Lengths, Hidden,
                         testing::Combine(testing::ValuesIn(test_dtypes()), testing::ValuesIn(hidden_lengths())));

TEST(Semantics, PoisonStaysHiddenWithEveryPairOfOptions) {
  int tested = 0, index = 0;
  for (Case c : pair_cases()) {
    // Scores before the mask show what is masked, so they may not be asked for.
    if (c.weights_of == WeightsOf::scores || c.weights_of == WeightsOf::softcapped) c.weights_of = WeightsOf::masked;
    if (reduced() && index++ % 12 != 0) continue;
    SCOPED_TRACE(describe(c));
    const AttentionBackward clean = build(c);
    const HiddenRows hidden = hidden_rows(clean);
    if (hidden.queries.empty() && hidden.keys.empty()) continue;
    expect_near(run(poisoned(clean, hidden, std::nan(""))), run(clean), tolerance_of(c.dtype));
    ++tested;
  }
  EXPECT_GT(tested, reduced() ? 8 : 100);
}

// A key that only later queries see is hidden from the earlier ones, in the middle of a tile too.
TEST(Semantics, CausalRowsDoNotSeeLaterKeys) {
  for (DType dtype : test_dtypes()) {
    for (int64_t poisoned : {1, 70, 131, 299}) {
      SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " key " + std::to_string(poisoned));
      AttentionBackward p = build(shaped(dtype, 300, 300));
      p.options.causal = headway::Causal::top_left;
      const AttentionResult clean = headway::attention(p.query, p.key, p.value, p.options);
      fill_row(p.key, 0, 1, poisoned, std::nan(""));
      fill_row(p.value, 0, 1, poisoned, kInfinity);
      const AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
      auto before = [&](const Tensor& t) { return t.select(0, 0).select(0, 1).slice(0, 0, poisoned); };
      EXPECT_TRUE(near(before(result.output), before(clean.output), tolerance_of(dtype)));
      EXPECT_TRUE(near(before(result.logsumexp), before(clean.logsumexp), tolerance_of(dtype)));
      EXPECT_TRUE(std::isnan(result.output.at({0, 1, poisoned, 0})));
      EXPECT_TRUE(same_bits(result.output.select(0, 1), clean.output.select(0, 1)));
    }
  }
}

TEST(Semantics, VisibleNanShows) {
  for (DType dtype : test_dtypes()) {
    for (int64_t key : {0, 77, 199}) {
      AttentionBackward p = build(shaped(dtype, 200, 200));
      p.value.select(0, 1).select(0, 0).select(0, key).slice(0, 7, 8).fill(std::nan(""));
      const AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
      for (int64_t i = 0; i < 200; ++i) {
        ASSERT_TRUE(std::isnan(result.output.at({1, 0, i, 7}))) << headway::dtype_name(dtype) << " query " << i;
        ASSERT_TRUE(std::isfinite(result.output.at({1, 0, i, 8}))) << headway::dtype_name(dtype) << " query " << i;
        ASSERT_TRUE(std::isfinite(result.output.at({1, 1, i, 7}))) << headway::dtype_name(dtype) << " query " << i;
      }
      fill_row(p.key, 0, 0, key, std::nan(""));
      const AttentionResult second = headway::attention(p.query, p.key, p.value, p.options);
      ASSERT_TRUE(std::isnan(second.output.at({0, 0, 3, 0}))) << headway::dtype_name(dtype);
      ASSERT_TRUE(std::isfinite(second.output.at({0, 1, 3, 0}))) << headway::dtype_name(dtype);
    }
  }
}

TEST(Semantics, EmptyRowsAreZeros) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = build(shaped(dtype, 9, 12));
    p.options.mask = Mask::drop(Tensor::full({1}, 1, DType::boolean));
    p.options.weights = Weights::per_head;
    for (const auto& [name, tensor] : run(p)) {
      if (!tensor.defined()) continue;
      const std::vector<double> expected(static_cast<size_t>(tensor.element_count()),
                                         name == "logsumexp" ? -kInfinity : 0);
      EXPECT_EQ(tensor.to_vector(), expected) << name;
    }
    // With a sink, all of the weight is the sink's.
    p.options.sinks = Tensor::from<float>({0.5f, -1.0f}, {2});
    p.d_logsumexp = Tensor::full({2, 2, 9}, 1, dtype == DType::float64 ? dtype : DType::float32);
    const Named results = run(p);
    for (double value : results[0].second.to_vector()) EXPECT_EQ(value, 0);
    EXPECT_NEAR(results[1].second.at({0, 0, 3}), 0.5, 1e-6);
    EXPECT_NEAR(results[1].second.at({1, 1, 8}), -1.0, 1e-6);
    EXPECT_NEAR(results[7].second.at({0}), 18, 1e-4);
  }
}

// ---- extreme numbers ----

void expect_matches_reference(AttentionBackward p) {
  const DType dtype = p.query.dtype(), arithmetic = dtype == DType::float64 ? dtype : DType::float32;
  p.forward = headway::attention(p.query, p.key, p.value, p.options);
  const headway::AttentionGradients g = headway::attention_backward(p);
  ForwardSpread f;
  GradientSpread s;
  const ForwardValues exact = reference_forward(p, &f), naive = naive_forward(p);
  const GradientValues exact_gradients = reference_backward(p, &s), naive_gradients = naive_backward(p);
  auto expect = [&](const char* name, const Tensor& actual, const std::vector<double>& e, const std::vector<double>& n,
                    DType storage, double spread, double logsumexp = 0) {
    const Comparison comparison = compare(actual, e, n, {storage, spread, f.score, logsumexp});
    EXPECT_LE(comparison.error, comparison.bound)
        << headway::dtype_name(dtype) << " " << name << ": " << comparison.worst;
  };
  expect("output", p.forward.output, exact.output, naive.output, dtype, f.output);
  expect("logsumexp", p.forward.logsumexp, exact.logsumexp, naive.logsumexp, arithmetic, 1);
  expect("query", g.query, exact_gradients.query, naive_gradients.query, dtype, s.query, f.logsumexp);
  expect("key", g.key, exact_gradients.key, naive_gradients.key, dtype, s.key, f.logsumexp);
  expect("value", g.value, exact_gradients.value, naive_gradients.value, dtype, s.value, f.logsumexp);
}

TEST(Semantics, VeryLargeScores) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = build(shaped(dtype, 70, 130));
    p.options.scale = 2000;  // scores of about 1e4
    expect_matches_reference(p);
  }
}

TEST(Semantics, ConstantRows) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = build(shaped(dtype, 65, 200));
    p.key = Tensor::full(p.key.shape(), 3, dtype);
    const AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
    double mean = 0;
    for (int64_t j = 0; j < 200; ++j) mean += p.value.at({1, 0, j, 4}) / 200;
    EXPECT_NEAR(result.output.at({1, 0, 33, 4}), mean, tolerance_of(dtype));
    expect_matches_reference(p);
  }
}

TEST(Semantics, HugeValues) {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    AttentionBackward p = build(shaped(dtype, 40, 150));
    for (int64_t b = 0; b < 2; ++b) {
      for (int64_t j = 0; j < 150; ++j) fill_row(p.value, b, 0, j, j % 2 == 0 ? 1e30 : 3e30);
    }
    expect_matches_reference(p);
  }
}

// Score -inf, from an infinite key: a weight of zero. Score +inf: that row alone is NaN.
TEST(Semantics, InfiniteScores) {
  for (DType dtype : test_dtypes()) {
    AttentionBackward p = build(shaped(dtype, 33, 140));
    p.query = Tensor::uniform(p.query.shape(), 0.5, 1, 3, dtype);
    fill_row(p.key, 0, 0, 100, -kInfinity);
    AttentionBackward without = p;
    std::vector<bool> keep(140, true);
    keep[100] = false;
    without.options.mask = Mask::keep(Tensor::from(keep, {1, 1, 1, 140}));
    AttentionResult result = headway::attention(p.query, p.key, p.value, p.options);
    const AttentionResult expected = headway::attention(p.query, p.key, p.value, without.options);
    EXPECT_TRUE(
        near(result.output.select(0, 0).select(0, 0), expected.output.select(0, 0).select(0, 0), tolerance_of(dtype)))
        << headway::dtype_name(dtype);
    fill_row(p.query, 0, 0, 20, -1);
    result = headway::attention(p.query, p.key, p.value, p.options);
    EXPECT_TRUE(std::isnan(result.output.at({0, 0, 20, 0})));
    EXPECT_TRUE(std::isfinite(result.output.at({0, 0, 19, 0})));
    EXPECT_TRUE(std::isfinite(result.output.at({0, 0, 21, 0})));
  }
}

// Scores that grow, fall, or jump along the keys by hundreds of nats: a running maximum has to be rescaled late.
TEST(Semantics, MaximumComesLate) {
  const int64_t keys = reduced() ? 200 : 700;
  for (DType dtype : test_dtypes()) {
    for (int shape = 0; shape < 4; ++shape) {
      for (double nats : {5.0, 20.0, 70.0, 500.0}) {
        SCOPED_TRACE(std::string(headway::dtype_name(dtype)) + " shape " + std::to_string(shape) + " nats " +
                     std::to_string(nats));
        Case c = shaped(dtype, 20, keys);
        c.batch = 1;
        c.heads = c.kv_heads = 1;
        AttentionBackward p = build(c);
        p.options.scale = 1;
        p.query.slice(3, 0, 1).fill(1);
        p.query.slice(3, 1, 32).copy_from(Tensor::uniform({1, 1, 20, 31}, -0.02, 0.02, 9, dtype));
        for (int64_t j = 0; j < keys; ++j) {
          const double grows = nats * static_cast<double>(j) / keys;
          const double steps[] = {grows, nats - grows, j % 64 < 60 ? grows - nats : 0.0, j == keys - 1 ? nats : 0.0};
          p.key.select(0, 0).select(0, 0).select(0, j).slice(0, 0, 1).fill(steps[shape]);
        }
        expect_matches_reference(p);
      }
    }
  }
}

// The forward with the most negative finite bias on every third key, and on all keys of query 7.
AttentionResult with_lowest_bias(DType dtype) {
  const double lowest = dtype == DType::float16    ? -65504
                        : dtype == DType::float64  ? std::numeric_limits<double>::lowest()
                        : dtype == DType::bfloat16 ? -3.3895e38
                                                   : std::numeric_limits<float>::lowest();
  const AttentionBackward p = build(shaped(dtype, 20, 100));
  std::vector<double> bias(20 * 100, 0.0);
  for (size_t e = 0; e < bias.size(); ++e) {
    if (e / 100 == 7 || e % 3 == 0) bias[e] = lowest;
  }
  return headway::attention(p.query, p.key, p.value,
                            {.bias = Tensor::from(bias, {20, 100}).to(dtype), .weights = Weights::per_head});
}

// The most negative finite number is a common way to mask: its weights are zero, and nothing becomes NaN.
TEST(Semantics, MostNegativeFiniteBias) {
  for (DType dtype : test_dtypes()) {
    const AttentionResult result = with_lowest_bias(dtype);
    for (double value : result.output.to_vector()) ASSERT_TRUE(std::isfinite(value)) << headway::dtype_name(dtype);
    EXPECT_EQ(result.weights.at({0, 0, 3, 0}), 0);
  }
}

// A row of nothing else is masked: from -1e30 down a bias is a mask, and -65504, the lowest float16, is not.
TEST(Semantics, MostNegativeFiniteBiasMasksRows) {
  for (DType dtype : test_dtypes()) {
    const AttentionResult result = with_lowest_bias(dtype);
    double sum = 0;
    for (int64_t j = 0; j < 100; ++j) sum += result.weights.at({0, 0, 7, j});
    EXPECT_NEAR(sum, dtype == DType::float16 ? 1 : 0, 0.02) << headway::dtype_name(dtype);
  }
}

// The recorded backward belongs to the forward: what became of an option's tensor since does not matter.
TEST(Semantics, BackwardKeepsTheProblemOfTheForward) {
  const AttentionBackward p = build(shaped(DType::float32, 20, 30));
  Tensor lengths = Tensor::from<int64_t>({17, 30}, {2});
  Tensor key = p.key.clone().set_requires_grad();
  const AttentionResult result = headway::attention(p.query, key, p.value, {.key_lengths = lengths});
  AttentionBackward expected = p;
  expected.options = {.key_lengths = {17, 30}};
  expected.forward = result;
  expected.d_output = p.d_output;
  expected.d_logsumexp = expected.d_weights = Tensor();
  lengths.copy_from(Tensor::from<int64_t>({30, 1000}, {2}));  // of which the second would be an error
  result.output.backward(p.d_output);
  EXPECT_EQ(key.grad().to_vector(), headway::attention_backward(expected).key.to_vector());
}

}  // namespace
}  // namespace headway_test

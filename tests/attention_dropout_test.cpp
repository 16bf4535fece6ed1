// Dropout follows its rule, whatever the layout and the number of threads.
#include <gtest/gtest.h>

#include <cmath>

#include "core/random.h"
#include "headway/threads.h"
#include "ops/attention.h"
#include "ops/attention_checks.h"
#include "support/bits.h"
#include "support/cases.h"

namespace headway_test {
namespace {

using headway::attention;
using headway::AttentionOptions;
using headway::internal::DropoutRule;
using std::int64_t;

// Values [batch, heads, keys, keys] with ones on the diagonal: the output is then the weights after dropout.
Tensor identity(int64_t batch, int64_t heads, int64_t keys, DType dtype) {
  std::vector<float> values(static_cast<size_t>(keys * keys));
  for (int64_t j = 0; j < keys; ++j) values[static_cast<size_t>(j * keys + j)] = 1;
  return Tensor::from(values, {1, 1, keys, keys}).expand({batch, heads, keys, keys}).contiguous().to(dtype);
}

class AttentionDropout : public testing::TestWithParam<DType> {};

TEST_P(AttentionDropout, DropsWhatTheRuleSays) {
  constexpr int64_t kBatch = 2, kHeads = 3, kQueries = 75, kKeys = 140;
  const Tensor query = Tensor::randn({kBatch, kHeads, kQueries, 16}, 1, GetParam());
  const Tensor key = Tensor::randn({kBatch, 1, kKeys, 16}, 2, GetParam());
  const Tensor value = identity(kBatch, 1, kKeys, GetParam());
  for (double p : {0.1, 0.5, 0.9}) {
    const Tensor plain = attention(query, key, value, {}).output;
    const AttentionOptions options = {.dropout = p, .seed = 0x123456789ABCDEFu};
    const DropoutRule rule = DropoutRule::make(p, options.seed);
    const std::vector<double> dropped = attention(query, key, value, options).output.to_vector();
    const std::vector<double> weights = plain.to_vector();
    size_t e = 0, count = 0;
    for (int64_t b = 0; b < kBatch; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t r = 0; r < kQueries; ++r) {
          for (int64_t c = 0; c < kKeys; ++c, ++e) {
            if (!rule.keep(b, h, r, c)) {
              ASSERT_EQ(dropped[e], 0) << b << " " << h << " " << r << " " << c;
              ++count;
            } else {
              ASSERT_NEAR(dropped[e], weights[e] * rule.scale,
                          2 * tolerance_of(GetParam()) * weights[e] * rule.scale + 1e-7);
            }
          }
        }
      }
    }
    const double n = kBatch * kHeads * kQueries * kKeys;
    EXPECT_NEAR(static_cast<double>(count) / n, p, 5 * std::sqrt(p * (1 - p) / n));
  }
}

TEST_P(AttentionDropout, CountsPositionsInsideTheSequence) {
  const Tensor query = Tensor::randn({1, 2, 90, 16}, 1, GetParam()),
               key = Tensor::randn({1, 2, 100, 16}, 2, GetParam());
  const Tensor value = identity(1, 2, 100, GetParam());
  AttentionOptions options = {.dropout = 0.5, .seed = 7};
  options.cu_query_lengths = {0, 40, 90};
  options.cu_key_lengths = {0, 33, 100};
  options.query_offset = 5;  // positions for masks, not for dropout
  const Tensor output = attention(query, key, value, options).output;
  const DropoutRule rule = DropoutRule::make(0.5, 7);
  for (int64_t r = 40; r < 90; ++r) {
    for (int64_t c = 33; c < 100; ++c) {
      ASSERT_EQ(output.at({0, 1, r, c}) != 0, rule.keep(1, 1, r - 40, c - 33)) << r << " " << c;
    }
  }
}

// One query takes the way that splits the keys.
TEST_P(AttentionDropout, HoldsForOneQuery) {
  const Tensor query = Tensor::randn({1, 4, 1, 16}, 1, GetParam()), key = Tensor::randn({1, 2, 700, 16}, 2, GetParam());
  const Tensor output = attention(query, key, identity(1, 2, 700, GetParam()), {.dropout = 0.25, .seed = 3}).output;
  const DropoutRule rule = DropoutRule::make(0.25, 3);
  for (int64_t h = 0; h < 4; ++h) {
    for (int64_t c = 0; c < 700; ++c) ASSERT_EQ(output.at({0, h, 0, c}) != 0, rule.keep(0, h, 0, c)) << h << " " << c;
  }
}

// A part of a longer sequence and of more heads draws at its places there, whatever their alignment: with tiles and
// with the way of one query, forward and backward.
TEST_P(AttentionDropout, CountsFromThePlaceOfAPart) {
  const DropoutRule rule = DropoutRule::make(0.5, 11);
  constexpr std::pair<int64_t, int64_t> kPlaces[] = {{5, 7}, {16, 32}, {3, 0}, {0, 9}};
  for (const auto& [row, column] : kPlaces) {
    for (const int64_t queries : {70, 1}) {
      const int64_t keys = queries == 1 ? 600 : 90;
      const Tensor query = Tensor::randn({1, 2, queries, 16}, 1, GetParam());
      const Tensor key = Tensor::randn({1, 2, keys, 16}, 2, GetParam());
      auto problem = headway::internal::make_attention_problem("test", query, key, identity(1, 2, keys, GetParam()),
                                                               {.dropout = 0.5, .seed = 11});
      problem.first_head = 4;
      problem.sequences[0].first_row = row;
      problem.sequences[0].first_column = column;
      const AttentionResult result = headway::internal::attention_forward(problem);
      headway::AttentionGradients gradients;
      const Tensor d_output = Tensor::full(result.output.shape(), 1, GetParam());
      headway::internal::attention_backward_into(problem, {result.output, result.logsumexp, d_output, {}, {}}, {},
                                                 gradients);
      const std::vector<double> output = result.output.to_vector(), d_value = gradients.value.to_vector();
      for (int64_t h = 0; h < 2; ++h) {
        for (int64_t c = 0; c < keys; ++c) {
          double sum = 0;  // of the weights that are kept: the gradient of the value
          for (int64_t r = 0; r < queries; ++r) {
            const double weight = output[static_cast<size_t>(((h * queries) + r) * keys + c)];
            ASSERT_EQ(weight != 0, rule.keep(0, 4 + h, row + r, column + c)) << h << " " << r << " " << c;
            sum += weight;
          }
          ASSERT_NEAR(d_value[static_cast<size_t>((h * keys + c) * keys)], sum, 0.02 * sum + 1e-6) << h << " " << c;
        }
      }
    }
  }
}

TEST_P(AttentionDropout, LayoutAndThreadsDoNotMatter) {
  Case c;
  c.dtype = GetParam();
  c.batch = 2;
  c.heads = c.kv_heads = 2;
  c.query_length = 120;
  c.key_length = 150;
  c.head_dim = c.value_dim = 32;
  c.dropout = 0.3;
  const Named expected = run(build(c));
  const int threads = headway::num_threads();
  for (int count : {1, 3}) {
    headway::set_num_threads(count);
    for (Layout layout : {Layout::length_first, Layout::padded}) {
      c.layout = layout;
      expect_same_bits(run(build(c)), expected);
    }
  }
  headway::set_num_threads(threads);
}

INSTANTIATE_TEST_SUITE_P(Dtypes, AttentionDropout,
                         testing::Values(DType::float32, DType::float64, DType::bfloat16, DType::float16));

TEST(DropoutSeed, ChangesTheMask) {
  const Tensor query = Tensor::randn({1, 1, 20, 8}, 1), key = Tensor::randn({1, 1, 30, 8}, 2),
               value = identity(1, 1, 30, DType::float32);
  const Tensor a = attention(query, key, value, {.dropout = 0.5, .seed = 1}).output;
  const Tensor b = attention(query, key, value, {.dropout = 0.5, .seed = 2}).output;
  const Tensor high = attention(query, key, value, {.dropout = 0.5, .seed = 1 + (std::uint64_t{1} << 32)}).output;
  EXPECT_FALSE(same_bits(a, b));
  EXPECT_FALSE(same_bits(a, high));
  EXPECT_TRUE(same_bits(a, attention(query, key, value, {.dropout = 0.5, .seed = 1}).output));
}

}  // namespace
}  // namespace headway_test

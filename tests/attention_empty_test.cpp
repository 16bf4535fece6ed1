// Tensors without elements are valid and give zeros.
#include <gtest/gtest.h>

#include <cmath>

#include "support/bits.h"
#include "support/cases.h"

namespace headway_test {
namespace {

Case shaped(DType dtype, std::int64_t batch, std::int64_t queries, std::int64_t keys) {
  Case c = sized(dtype, batch, 3, {queries, keys, 16, 20});
  c.weights = Weights::per_head;
  return c;
}

class Empty : public testing::TestWithParam<DType> {};

TEST_P(Empty, Batch) {
  for (const auto& [name, tensor] : run(build(shaped(GetParam(), 0, 5, 7)))) {
    if (!tensor.defined()) continue;
    EXPECT_EQ(tensor.size(0), 0) << name;
  }
}

TEST_P(Empty, Heads) {
  AttentionBackward p;
  p.query = p.key = p.value = p.d_output = Tensor::zeros({2, 0, 5, 8}, GetParam());
  const Named results = run(p);
  EXPECT_EQ(results[0].second.shape(), headway::Shape({2, 0, 5, 8}));
  EXPECT_EQ(results[3].second.shape(), headway::Shape({2, 0, 5, 8}));
}

TEST_P(Empty, Queries) {
  const AttentionBackward p = build(shaped(GetParam(), 2, 0, 7));
  const Named results = run(p);
  EXPECT_EQ(results[0].second.shape(), headway::Shape({2, 3, 0, 20}));
  EXPECT_EQ(results[1].second.shape(), headway::Shape({2, 3, 0}));
  EXPECT_EQ(results[3].second.shape(), p.query.shape());
  for (double value : results[4].second.to_vector()) EXPECT_EQ(value, 0);
  for (double value : results[5].second.to_vector()) EXPECT_EQ(value, 0);
  EXPECT_EQ(results[4].second.element_count(), 2 * 3 * 7 * 16);
}

TEST_P(Empty, Keys) {
  const AttentionBackward p = build(shaped(GetParam(), 2, 5, 0));
  const Named results = run(p);
  EXPECT_EQ(results[0].second.element_count(), 2 * 3 * 5 * 20);
  for (double value : results[0].second.to_vector()) EXPECT_EQ(value, 0);
  for (double value : results[1].second.to_vector()) EXPECT_EQ(value, -INFINITY);
  EXPECT_EQ(results[2].second.shape(), headway::Shape({2, 3, 5, 0}));
  EXPECT_EQ(results[3].second.element_count(), 2 * 3 * 5 * 16);
  for (double value : results[3].second.to_vector()) EXPECT_EQ(value, 0);
  EXPECT_EQ(results[4].second.shape(), p.key.shape());
}

TEST_P(Empty, KeysWithSinks) {
  Case c = shaped(GetParam(), 2, 5, 0);
  c.sinks = c.d_logsumexp = true;
  c.causal = Causal::bottom_right;
  const AttentionBackward p = build(c);
  const Named results = run(p);
  for (double value : results[0].second.to_vector()) EXPECT_EQ(value, 0);
  double expected = 0;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t i = 0; i < 5; ++i) {
      EXPECT_NEAR(results[1].second.at({b, 1, i}), p.options.sinks.at({1}), 1e-6);
      expected += p.d_logsumexp.at({b, 1, i});
    }
  }
  EXPECT_NEAR(results[7].second.at({1}), expected, 1e-5);
}

TEST_P(Empty, SequencesOfAPackedBatch) {
  Case c = shaped(GetParam(), 1, 6, 8);
  AttentionBackward p = build(c);
  p.options.cu_query_lengths = {0, 0, 3, 6, 6};
  p.options.cu_key_lengths = {0, 2, 2, 8, 8};
  const Named results = run(p);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(results[0].second.at({0, 2, i, 3}), 0);
    EXPECT_NE(results[0].second.at({0, 2, i + 3, 3}), 0);
    EXPECT_EQ(results[1].second.at({0, 2, i}), -INFINITY);
  }
  for (std::int64_t j = 0; j < 2; ++j) EXPECT_EQ(results[5].second.at({0, 1, j, 0}), 0);
}

// Nothing flows back: all gradients are zero.
TEST_P(Empty, Gradients) {
  Case c = shaped(GetParam(), 2, 5, 7);
  c.d_output = false;
  c.bias = c.sinks = true;
  const Named results = run(build(c));
  for (size_t n = 3; n < results.size(); ++n) {
    ASSERT_TRUE(results[n].second.defined()) << results[n].first;
    for (double value : results[n].second.to_vector()) EXPECT_EQ(value, 0) << results[n].first;
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Empty,
                         testing::Values(DType::float32, DType::float64, DType::bfloat16, DType::float16));

}  // namespace
}  // namespace headway_test

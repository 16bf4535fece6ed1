// The forward against the reference, over the whole list of cases.
#include <gtest/gtest.h>

#include "support/reference_suite.h"

namespace headway_test {
namespace {

using headway::Shape;

void expect_shapes(const AttentionBackward& p, const AttentionResult& result) {
  const std::int64_t batch = p.query.size(0), heads = p.query.size(1), queries = p.query.size(2);
  EXPECT_EQ(result.output.shape(), Shape({batch, heads, queries, p.value.size(3)}));
  EXPECT_EQ(result.output.dtype(), p.query.dtype());
  EXPECT_EQ(result.logsumexp.shape(), Shape({batch, heads, queries}));
  EXPECT_EQ(result.logsumexp.dtype(), p.query.dtype() == DType::float64 ? DType::float64 : DType::float32);
  if (p.options.weights == Weights::none) {
    EXPECT_FALSE(result.weights.defined());
  } else if (p.options.weights == Weights::mean) {
    EXPECT_EQ(result.weights.shape(), Shape({batch, queries, p.key.size(2)}));
  } else {
    EXPECT_EQ(result.weights.shape(), Shape({batch, heads, queries, p.key.size(2)}));
  }
}

class AttentionForward : public ReferenceSuite {};

TEST_P(AttentionForward, MatchesTheReference) {
  const Case& c = GetParam();
  const AttentionBackward p = build(c);
  AttentionResult result;
  ASSERT_NO_THROW(result = headway::attention(p.query, p.key, p.value, p.options));
  expect_shapes(p, result);
  ForwardSpread spread;
  const ForwardValues exact = reference_forward(p, &spread), naive = naive_forward(p);
  const DType arithmetic = c.dtype == DType::float64 ? DType::float64 : DType::float32;
  expect("output", compare(result.output, exact.output, naive.output, {c.dtype, spread.output, spread.score}));
  expect("logsumexp", compare(result.logsumexp, exact.logsumexp, naive.logsumexp, {arithmetic, 1, spread.score}));
  if (c.weights == Weights::none) return;
  expect("weights",
         compare(result.weights, exact.weights, naive.weights, {c.dtype, 0, spread.score, spread.logsumexp}));
}

INSTANTIATE_TEST_SUITE_P(List, AttentionForward, testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace headway_test

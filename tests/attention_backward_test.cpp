// The gradients against the reference, over the whole list of cases.
#include <gtest/gtest.h>

#include "support/reference_suite.h"

namespace headway_test {
namespace {

using headway::AttentionGradients;

void expect_like(const Tensor& gradient, const Tensor& input, const char* name) {
  ASSERT_TRUE(gradient.defined()) << name;
  EXPECT_EQ(gradient.shape(), input.shape()) << name;
  EXPECT_EQ(gradient.dtype(), input.dtype()) << name;
}

class AttentionGradient : public ReferenceSuite {};

TEST_P(AttentionGradient, MatchesTheReference) {
  const Case& c = GetParam();
  AttentionBackward p = build(c);
  AttentionGradients result;
  ASSERT_NO_THROW(p.forward = headway::attention(p.query, p.key, p.value, p.options));
  if (c.d_weights) p.d_weights = p.d_weights.to(p.forward.weights.dtype());
  ASSERT_NO_THROW(result = headway::attention_backward(p));
  expect_like(result.query, p.query, "query");
  expect_like(result.key, p.key, "key");
  expect_like(result.value, p.value, "value");
  if (HasFatalFailure()) return;

  ForwardSpread forward_spread;
  GradientSpread spread;
  reference_forward(p, &forward_spread);
  const GradientValues exact = reference_backward(p, &spread), naive = naive_backward(p);
  const double score = forward_spread.score, logsumexp = forward_spread.logsumexp;
  expect("query", compare(result.query, exact.query, naive.query, {c.dtype, spread.query, score, logsumexp}));
  expect("key", compare(result.key, exact.key, naive.key, {c.dtype, spread.key, score, logsumexp}));
  expect("value", compare(result.value, exact.value, naive.value, {c.dtype, spread.value, score, logsumexp}));
  EXPECT_EQ(result.bias.defined(), c.bias && c.bias_gradient);
  if (result.bias.defined()) {
    expect_like(result.bias, p.options.bias, "bias");
    const DType coarser = c.dtype == DType::float64 ? p.options.bias.dtype() : c.dtype;
    expect("bias", compare(result.bias, exact.bias, naive.bias, {coarser, spread.bias, score, logsumexp}));
  }
  EXPECT_EQ(result.sinks.defined(), c.sinks);
  if (result.sinks.defined()) {
    expect_like(result.sinks, p.options.sinks, "sinks");
    expect("sinks", compare(result.sinks, exact.sinks, naive.sinks, {c.dtype, spread.sinks, score, logsumexp}));
  }
}

INSTANTIATE_TEST_SUITE_P(List, AttentionGradient, testing::ValuesIn(all_cases()), name_of_case);

}  // namespace
}  // namespace headway_test

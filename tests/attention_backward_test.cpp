// The gradients against the reference, over the whole list of cases.
#include <gtest/gtest.h>

#include <iostream>

#include "support/cases.h"
#include "support/reference.h"
#include "support/worst.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::AttentionGradients;

void expect_like(const Tensor& gradient, const Tensor& input, const char* name) {
  ASSERT_TRUE(gradient.defined()) << name;
  EXPECT_EQ(gradient.shape(), input.shape()) << name;
  EXPECT_EQ(gradient.dtype(), input.dtype()) << name;
}

TEST(AttentionBackward, MatchesTheReference) {
  Worst worst;
  std::cout << "random seed " << random_seed() << "\n";
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(describe(c));
    AttentionBackward p = build(c);
    AttentionGradients result;
    ASSERT_NO_THROW(p.forward = headway::attention(p.query, p.key, p.value, p.options));
    if (c.d_weights) p.d_weights = p.d_weights.to(p.forward.weights.dtype());
    ASSERT_NO_THROW(result = headway::attention_backward(p));
    expect_like(result.query, p.query, "query");
    expect_like(result.key, p.key, "key");
    expect_like(result.value, p.value, "value");
    if (HasFatalFailure()) continue;

    ForwardSpread forward_spread;
    GradientSpread spread;
    reference_forward(p, &forward_spread);
    const GradientValues exact = reference_backward(p, &spread), naive = naive_backward(p);
    const double score = forward_spread.score, logsumexp = forward_spread.logsumexp;
    worst.expect(c, "query",
                 compare(result.query, exact.query, naive.query, {c.dtype, spread.query, score, logsumexp}));
    worst.expect(c, "key", compare(result.key, exact.key, naive.key, {c.dtype, spread.key, score, logsumexp}));
    worst.expect(c, "value",
                 compare(result.value, exact.value, naive.value, {c.dtype, spread.value, score, logsumexp}));
    EXPECT_EQ(result.bias.defined(), c.bias && c.bias_gradient);
    if (result.bias.defined()) {
      expect_like(result.bias, p.options.bias, "bias");
      const DType coarser = c.dtype == DType::float64 ? p.options.bias.dtype() : c.dtype;
      worst.expect(c, "bias", compare(result.bias, exact.bias, naive.bias, {coarser, spread.bias, score, logsumexp}));
    }
    EXPECT_EQ(result.sinks.defined(), c.sinks);
    if (result.sinks.defined()) {
      expect_like(result.sinks, p.options.sinks, "sinks");
      worst.expect(c, "sinks",
                   compare(result.sinks, exact.sinks, naive.sinks, {c.dtype, spread.sinks, score, logsumexp}));
    }
  }
  worst.print();
}

}  // namespace
}  // namespace headway_test

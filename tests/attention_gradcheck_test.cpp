// The gradients against finite differences of the forward, in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "support/cases.h"
#include "support/differences.h"

namespace headway_test {
namespace {

using headway::AttentionBackward;
using headway::AttentionGradients;
using headway::AttentionResult;

std::vector<double> values_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.to_vector() : std::vector<double>();
}

TEST(AttentionGradients, MatchFiniteDifferences) {
  int derivatives = 0, not_zero = 0;
  for (const Case& c : gradcheck_cases()) {
    SCOPED_TRACE(describe(c));
    AttentionBackward p = build(c);
    p.forward = headway::attention(p.query, p.key, p.value, p.options);
    const AttentionGradients g = headway::attention_backward(p);
    auto evaluate = [&] {
      const AttentionResult f = headway::attention(p.query, p.key, p.value, p.options);
      return objective(p, f.output.to_vector(), values_of(f.weights), f.logsumexp.to_vector());
    };
    for (const GradientInput& input : gradient_inputs(p, values_of(g.query), values_of(g.key), values_of(g.value),
                                                      values_of(g.bias), values_of(g.sinks))) {
      for (std::uint64_t direction = 0; direction < 3; ++direction) {
        const Directional d = directional_derivative(input, c.seed + direction, evaluate);
        EXPECT_NEAR(d.by_difference, d.by_gradient, 2e-7 * (1 + std::abs(d.by_gradient))) << input.name;
        ++derivatives;
        not_zero += std::abs(d.by_gradient) > 1e-3;
      }
    }
  }
  EXPECT_GT(not_zero, derivatives * 9 / 10);
}

}  // namespace
}  // namespace headway_test

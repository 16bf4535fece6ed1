// The gradients against finite differences of the forward, in float64.
#include <gtest/gtest.h>

#include <cmath>

#include "support/differences.h"
#include "support/each_case.h"

namespace headway_test {
namespace {

using headway::AttentionGradients;

std::vector<double> values_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.to_vector() : std::vector<double>();
}

class FiniteDifferences : public EachCase {
 protected:
  // Derivatives of zero would show nothing: of all cases together, nine in ten are something else.
  static void TearDownTestSuite() {
    if (cases_ == gradcheck_cases().size()) {
      EXPECT_GT(not_zero_, derivatives_ * 9 / 10);
    }
  }
  static inline std::size_t cases_ = 0;
  static inline int derivatives_ = 0, not_zero_ = 0;
};

TEST_P(FiniteDifferences, AreTheGradients) {
  const Case& c = GetParam();
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
      ++derivatives_;
      not_zero_ += std::abs(d.by_gradient) > 1e-3;
    }
  }
  ++cases_;
}

INSTANTIATE_TEST_SUITE_P(List, FiniteDifferences, testing::ValuesIn(gradcheck_cases()), name_of_case);

}  // namespace
}  // namespace headway_test

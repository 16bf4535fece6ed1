// The reference against itself: its gradients are those of its forward, and a few results known by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "support/differences.h"
#include "support/each_case.h"
#include "support/reference.h"

namespace headway_test {
namespace {

class ReferenceGradients : public EachCase {};

TEST_P(ReferenceGradients, MatchFiniteDifferences) {
  const Case& c = GetParam();
  AttentionBackward problem = build(c);
  GradientValues g = reference_backward(problem);
  auto evaluate = [&] {
    const ForwardValues f = reference_forward(problem);
    return objective(problem, f.output, f.weights, f.logsumexp);
  };
  for (const GradientInput& input : gradient_inputs(problem, g.query, g.key, g.value, g.bias, g.sinks)) {
    const Directional d = directional_derivative(input, c.seed, evaluate);
    EXPECT_NEAR(d.by_difference, d.by_gradient, 2e-7 * (1 + std::abs(d.by_gradient))) << input.name;
  }
}

INSTANTIATE_TEST_SUITE_P(List, ReferenceGradients, testing::ValuesIn(gradcheck_cases()), name_of_case);

TEST(Reference, KnownByHand) {
  // Two keys with scores 0 and log 3 have the weights 1/4 and 3/4.
  AttentionBackward problem;
  problem.query = Tensor::from<double>({1}, {1, 1, 1, 1});
  problem.key = Tensor::from<double>({0, std::log(3.0)}, {1, 1, 2, 1});
  problem.value = Tensor::from<double>({8, 16}, {1, 1, 2, 1});
  problem.options.weights = Weights::per_head;
  ForwardValues f = reference_forward(problem);
  EXPECT_NEAR(f.output[0], 14, 1e-14);
  EXPECT_NEAR(f.logsumexp[0], std::log(4.0), 1e-14);
  EXPECT_NEAR(f.weights[0], 0.25, 1e-14);
  // A sink with score log 4 takes half of everything.
  problem.options.sinks = Tensor::from<double>({std::log(4.0)}, {1});
  f = reference_forward(problem);
  EXPECT_NEAR(f.output[0], 7, 1e-14);
  EXPECT_NEAR(f.logsumexp[0], std::log(8.0), 1e-14);
}

TEST(Reference, EmptyRows) {
  AttentionBackward problem;
  problem.query = Tensor::full({1, 1, 2, 4}, std::nan(""), DType::float64);
  problem.key = Tensor::full({1, 1, 3, 4}, std::nan(""), DType::float64);
  problem.value = Tensor::full({1, 1, 3, 4}, std::nan(""), DType::float64);
  problem.d_output = Tensor::full({1, 1, 2, 4}, std::nan(""), DType::float64);
  problem.options.key_lengths = 0;
  const ForwardValues f = reference_forward(problem);
  EXPECT_EQ(f.output, std::vector<double>(8, 0.0));
  EXPECT_EQ(f.logsumexp, std::vector<double>(2, -INFINITY));
  const GradientValues g = reference_backward(problem);
  EXPECT_EQ(g.query, std::vector<double>(8, 0.0));
  EXPECT_EQ(g.key, std::vector<double>(12, 0.0));
  EXPECT_EQ(g.value, std::vector<double>(12, 0.0));
}

// The naive implementation is near the reference, by what its dtype allows.
TEST(Reference, NaiveIsNear) {
  for (const Case& c : random_cases(40, 5)) {
    SCOPED_TRACE(describe(c));
    const AttentionBackward problem = build(c);
    const double tolerance = c.dtype == DType::bfloat16  ? 0.1
                             : c.dtype == DType::float16 ? 0.02
                             : c.dtype == DType::float32 ? 2e-5
                                                         : 1e-13;
    const ForwardValues exact = reference_forward(problem), naive = naive_forward(problem);
    ASSERT_EQ(exact.output.size(), naive.output.size());
    for (size_t e = 0; e < exact.output.size(); ++e) ASSERT_NEAR(exact.output[e], naive.output[e], tolerance);
    const GradientValues exact_gradients = reference_backward(problem), naive_gradients = naive_backward(problem);
    for (size_t e = 0; e < exact_gradients.query.size(); ++e) {
      ASSERT_NEAR(exact_gradients.query[e], naive_gradients.query[e], 10 * tolerance);
    }
  }
}

}  // namespace
}  // namespace headway_test

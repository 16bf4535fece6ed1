// Class weights: how they are read, and the weighted loss with its gradient beside plain loops in double.
#include <gtest/gtest.h>

#include <cmath>

#include "headway/autograd.h"
#include "support/message_of.h"
#include "training/class_weights.h"

namespace {

using headway::Tensor;
using headway::internal::class_weights;
using headway::internal::weighted_cross_entropy;
using headway_test::contains;
using headway_test::message_of;
using Counts = std::map<std::string, std::int64_t>;

TEST(ClassWeights, AreReadByName) {
  const Counts counts = {{"a=b", 3}, {"oos", 1}, {"other", 2}};
  EXPECT_EQ(class_weights("", counts), std::vector<double>{});
  EXPECT_EQ(class_weights("oos=5", counts), (std::vector<double>{1, 5, 1}));
  EXPECT_EQ(class_weights("other=0.5,a=b=2", counts), (std::vector<double>{2, 1, 0.5}));
  const std::vector<double> balanced = class_weights("balanced", counts);  // 6 / (3 * count)
  ASSERT_EQ(balanced.size(), 3u);
  EXPECT_DOUBLE_EQ(balanced[0], 2.0 / 3.0);
  EXPECT_DOUBLE_EQ(balanced[1], 2.0);
  EXPECT_DOUBLE_EQ(balanced[2], 1.0);
}

TEST(ClassWeights, MistakesAreNamed) {
  const Counts counts = {{"oos", 1}, {"other", 2}};
  for (const char* text :
       {"oos", "oos=", "oos=0", "oos=-1", "oos=nan", "oos=inf", "oos=2x", "oos=2,,other=1", "auto"}) {
    EXPECT_PRED2(contains, message_of([&] { class_weights(text, counts); }), "expected balanced, or labels") << text;
  }
  EXPECT_PRED2(contains, message_of([&] { class_weights("ood=2", counts); }), "names \"ood\"");
}

// loss = sum_i w_i ce_i / sum_i w_i with ce_i = -sum_c q_ic log p_ic; its gradient is w_i (p_ic - q_ic) / sum_i w_i.
TEST(ClassWeights, LossAndGradientAreThoseOfPlainLoops) {
  constexpr std::int64_t kRows = 7, kClasses = 4;
  const std::vector<std::int64_t> targets = {0, 3, 1, 1, 2, 0, 3};
  const std::vector<double> weights = {1.0, 0.25, 5.0, 2.0};
  for (const double smoothing : {0.0, 0.1}) {
    Tensor logits = Tensor::randn({kRows, kClasses}, 3, headway::DType::float64);
    logits.set_requires_grad(true);
    const Tensor loss = weighted_cross_entropy(logits, targets, weights, smoothing);
    loss.backward();
    double total = 0.0, expected = 0.0;
    for (const std::int64_t target : targets) total += weights[static_cast<std::size_t>(target)];
    for (std::int64_t i = 0; i < kRows; ++i) {
      const double* row = logits.data<double>() + i * kClasses;
      const std::int64_t target = targets[static_cast<std::size_t>(i)];
      const double weight = weights[static_cast<std::size_t>(target)] / total;
      double denominator = 0.0;
      for (std::int64_t c = 0; c < kClasses; ++c) denominator += std::exp(row[c]);
      for (std::int64_t c = 0; c < kClasses; ++c) {
        const double p = std::exp(row[c]) / denominator,
                     q = (c == target ? 1.0 - smoothing : 0.0) + smoothing / kClasses;
        expected -= weight * q * std::log(p);
        EXPECT_NEAR(logits.grad().data<double>()[i * kClasses + c], weight * (p - q), 1e-14);
      }
    }
    EXPECT_NEAR(loss.item(), expected, 1e-14);
  }
}

}  // namespace

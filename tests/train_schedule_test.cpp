// Schedules against their closed forms.
#include <gtest/gtest.h>

#include <cmath>

#include "headway/optimizer.h"
#include "support/message_of.h"

namespace {

using headway_test::message_of;

TEST(TrainSchedule, ConstantStays) {
  const headway::Schedule schedule = headway::constant_schedule(0.3);
  EXPECT_EQ(schedule(1), 0.3);
  EXPECT_EQ(schedule(1'000'000), 0.3);
}

TEST(TrainSchedule, ThePapersWarmup) {
  const headway::Schedule schedule = headway::warmup_schedule(512, 4000, 2.0);
  for (const std::int64_t step : {1, 2, 17, 3999, 4000, 4001, 100'000}) {
    const auto s = static_cast<double>(step);
    const double expected = 2.0 * std::pow(512.0, -0.5) * std::min(std::pow(s, -0.5), s * std::pow(4000.0, -1.5));
    EXPECT_NEAR(schedule(step), expected, 1e-15) << step;
  }
  EXPECT_GT(schedule(4000), schedule(3999));
  EXPECT_GT(schedule(4000), schedule(4001));
}

TEST(TrainSchedule, CosineAndLinear) {
  const headway::DecayOptions options{.peak = 0.1, .warmup_steps = 10, .steps = 110, .final_rate = 0.02};
  const headway::Schedule cosine = headway::cosine_schedule(options), linear = headway::linear_schedule(options);
  for (std::int64_t step = 1; step <= 10; ++step) {
    EXPECT_NEAR(cosine(step), 0.1 * static_cast<double>(step) / 10, 1e-16);
    EXPECT_EQ(cosine(step), linear(step));
  }
  EXPECT_EQ(cosine(10), 0.1);
  for (const std::int64_t step : {11, 35, 60, 85, 109}) {
    const double progress = static_cast<double>(step - 10) / 100;
    EXPECT_NEAR(cosine(step), 0.02 + 0.08 * (1 + std::cos(progress * M_PI)) / 2, 1e-15) << step;
    EXPECT_NEAR(linear(step), 0.1 - 0.08 * progress, 1e-15) << step;
  }
  EXPECT_NEAR(cosine(60), 0.06, 1e-15);
  for (const std::int64_t step : {110, 111, 10'000}) {
    EXPECT_EQ(cosine(step), 0.02);
    EXPECT_EQ(linear(step), 0.02);
  }
}

TEST(TrainSchedule, NoJumpAnywhere) {
  const headway::DecayOptions options{.peak = 1.0, .warmup_steps = 50, .steps = 500, .final_rate = 0.1};
  for (const headway::Schedule& schedule : {headway::cosine_schedule(options), headway::linear_schedule(options)}) {
    for (std::int64_t step = 1; step < 600; ++step) {
      EXPECT_LT(std::abs(schedule(step + 1) - schedule(step)), 0.0201) << step;
    }
  }
}

TEST(TrainSchedule, WithoutWarmupAndWarmupAlone) {
  EXPECT_NEAR(headway::linear_schedule({.peak = 1.0, .steps = 10})(1), 0.9, 1e-15);
  const headway::Schedule rising = headway::linear_schedule({.peak = 1.0, .warmup_steps = 10, .steps = 10});
  EXPECT_EQ(rising(10), 1.0);
  EXPECT_EQ(rising(11), 0.0);
}

TEST(TrainSchedule, BadOptionsAreNamed) {
  EXPECT_EQ(message_of([] { headway::constant_schedule(-0.1); }),
            "constant_schedule: rate is -0.1, expected a finite rate of 0 or more");
  EXPECT_EQ(message_of([] { headway::warmup_schedule(0, 10); }), "warmup_schedule: width is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { headway::warmup_schedule(8, 0); }),
            "warmup_schedule: warmup_steps is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { headway::cosine_schedule({}); }), "cosine_schedule: steps is 0, expected 1 or more");
  EXPECT_EQ(message_of([] { headway::linear_schedule({.warmup_steps = 11, .steps = 10}); }),
            "linear_schedule: warmup_steps is 11, expected 0 to 10, the steps");
  EXPECT_EQ(message_of([] { headway::cosine_schedule({.peak = NAN, .steps = 10}); }),
            "cosine_schedule: peak is nan, expected a finite rate of 0 or more");
  EXPECT_EQ(message_of([] { headway::warmup_schedule(8, 10)(0); }),
            "warmup_schedule: the step is 0, expected 1 or more");
}

}  // namespace

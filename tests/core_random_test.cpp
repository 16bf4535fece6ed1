#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "core/random.h"
#include "core/random_stream.h"
#include "headway/random.h"
#include "headway/tensor.h"
#include "headway/threads.h"

namespace headway {
namespace {

using internal::DropoutRule;
using internal::philox4x32_7;
using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Random123 publish for 7 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32_7({0, 0, 0, 0}, {0, 0}), (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox4x32_7({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662}));
  EXPECT_EQ(philox4x32_7({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a}));
}

TEST(DropoutRule, RoundsTheProbability) {
  EXPECT_EQ(DropoutRule::make(0.0, 1).threshold, 0u);
  EXPECT_EQ(DropoutRule::make(0.0, 1).scale, 1.0);
  EXPECT_EQ(DropoutRule::make(0.5, 1).threshold, 32768u);
  EXPECT_EQ(DropoutRule::make(0.5, 1).scale, 2.0);
  EXPECT_EQ(DropoutRule::make(0.1, 1).threshold, 6554u);
  EXPECT_EQ(DropoutRule::make(0.1, 1).scale, 65536.0 / (65536.0 - 6554.0));
  EXPECT_EQ(DropoutRule::make(0.9999999, 1).threshold, 65535u);
  EXPECT_EQ(DropoutRule::make(0.9999999, 1).scale, 65536.0);
}

TEST(DropoutRule, ZeroKeepsAll) {
  const DropoutRule dropout = DropoutRule::make(0.0, 5);
  for (int r = 0; r < 40; ++r) {
    for (int c = 0; c < 40; ++c) {
      EXPECT_TRUE(dropout.keep(0, 0, r, c));
    }
  }
}

// One call serves rows {r, r + 8} x columns {c, c + 1, c + 8, c + 9}, in the documented places.
TEST(DropoutRule, EightDrawsOfACallLieWhereTheRuleSays) {
  const std::uint64_t seed = 0x0123456789abcdef;
  const DropoutRule dropout = DropoutRule::make(0.3, seed);
  const int b = 3, h = 5, block_row = 2, block_column = 4;
  for (int r = 0; r < 8; ++r) {
    for (int c = 0; c < 8; c += 2) {
      const Words words = philox4x32_7(
          {static_cast<std::uint32_t>(block_row * 8 + r), static_cast<std::uint32_t>(block_column * 4 + c / 2), h, b},
          {0x89abcdef, 0x01234567});
      const int row = 16 * block_row + r;
      const int column = 16 * block_column + c;
      EXPECT_EQ(dropout.draw(b, h, row, column), words[0] & 0xffff);
      EXPECT_EQ(dropout.draw(b, h, row, column + 1), words[0] >> 16);
      EXPECT_EQ(dropout.draw(b, h, row, column + 8), words[1] & 0xffff);
      EXPECT_EQ(dropout.draw(b, h, row, column + 9), words[1] >> 16);
      EXPECT_EQ(dropout.draw(b, h, row + 8, column), words[2] & 0xffff);
      EXPECT_EQ(dropout.draw(b, h, row + 8, column + 1), words[2] >> 16);
      EXPECT_EQ(dropout.draw(b, h, row + 8, column + 8), words[3] & 0xffff);
      EXPECT_EQ(dropout.draw(b, h, row + 8, column + 9), words[3] >> 16);
    }
  }
}

// No two places share a draw: every (counter, word, half) occurs once.
TEST(DropoutRule, EveryPlaceHasItsOwnDraw) {
  std::set<std::tuple<int, int, int, int>> seen;
  for (int r = 0; r < 64; ++r) {
    for (int c = 0; c < 64; ++c) {
      seen.insert({(r / 16) * 8 + r % 8, (c / 16) * 4 + (c % 8) / 2, 2 * ((r % 16) / 8) + (c % 16) / 8, c % 2});
    }
  }
  EXPECT_EQ(seen.size(), 64u * 64u);
}

TEST(DropoutRule, RateIsTheProbability) {
  constexpr int kSide = 512;
  for (const double p : {0.01, 0.1, 0.5, 0.9}) {
    const DropoutRule dropout = DropoutRule::make(p, 42);
    std::int64_t dropped = 0;
    for (int r = 0; r < kSide; ++r) {
      for (int c = 0; c < kSide; ++c) {
        dropped += !dropout.keep(1, 2, r, c);
      }
    }
    const double count = double{kSide} * kSide;
    EXPECT_NEAR(static_cast<double>(dropped) / count, p, 4.5 * std::sqrt(p * (1 - p) / count)) << p;
  }
}

// Draws of neighbours in each direction agree as often as independent ones would.
TEST(DropoutRule, NeighboursAreIndependent) {
  constexpr int kSide = 384;
  const DropoutRule dropout = DropoutRule::make(0.5, 7);
  const DropoutRule other_seed = DropoutRule::make(0.5, 8);
  const std::array<std::array<int, 4>, 8> shifts = {{{0, 0, 0, 1},
                                                     {0, 0, 1, 0},
                                                     {0, 0, 0, 8},
                                                     {0, 0, 8, 0},
                                                     {0, 0, 16, 0},
                                                     {0, 0, 0, 16},
                                                     {0, 1, 0, 0},
                                                     {1, 0, 0, 0}}};
  const double sigma = 0.5 / kSide;
  for (const auto& [b, h, r, c] : shifts) {
    std::int64_t equal = 0;
    for (int row = 0; row < kSide; ++row) {
      for (int column = 0; column < kSide; ++column) {
        equal += dropout.keep(0, 0, row, column) == dropout.keep(b, h, row + r, column + c);
      }
    }
    EXPECT_NEAR(static_cast<double>(equal) / (kSide * kSide), 0.5, 4.5 * sigma) << b << h << r << c;
  }
  std::int64_t equal = 0;
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      equal += dropout.keep(0, 0, row, column) == other_seed.keep(0, 0, row, column);
    }
  }
  EXPECT_NEAR(static_cast<double>(equal) / (kSide * kSide), 0.5, 4.5 * sigma);
}

TEST(Randn, HasTheMomentsOfANormalDistribution) {
  const std::vector<double> values = Tensor::randn({200000}, 3, DType::float64).to_vector();
  double sums[4] = {};
  for (const double value : values) {
    double power = 1;
    for (double& sum : sums) {
      sum += power *= value;
    }
  }
  const double count = static_cast<double>(values.size());
  EXPECT_NEAR(sums[0] / count, 0.0, 4.5 * std::sqrt(1 / count));
  EXPECT_NEAR(sums[1] / count, 1.0, 4.5 * std::sqrt(2 / count));
  EXPECT_NEAR(sums[2] / count, 0.0, 4.5 * std::sqrt(15 / count));
  EXPECT_NEAR(sums[3] / count, 3.0, 4.5 * std::sqrt(96 / count));
}

TEST(Randn, IsTheSameInEveryDTypeUpToRoundingAndAtEveryThreadCount) {
  const int before = num_threads();
  const Tensor wide = Tensor::randn({33, 1000}, 11, DType::float64);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    set_num_threads(dtype == DType::float32 ? 1 : 4);
    EXPECT_EQ(Tensor::randn({33, 1000}, 11, dtype).to_vector(), wide.to(dtype).to_vector());
  }
  set_num_threads(before);
  EXPECT_NE(Tensor::randn({8}, 1).to_vector(), Tensor::randn({8}, 2).to_vector());
  // The index alone counts, so that a longer tensor starts like a shorter one.
  EXPECT_EQ(Tensor::randn({8}, 1).to_vector(), Tensor::randn({16}, 1).slice(0, 0, 8).to_vector());
}

TEST(RandomState, AThreadMayHaveAStreamOfItsOwn) {
  set_random_state({.seed = 3, .drawn = 1});
  std::vector<std::uint64_t> own;
  {
    const internal::OwnRandomStream stream({.seed = 8});
    own = {next_random_seed(), next_random_seed()};
    {
      const internal::OwnRandomStream inner(random_state());
      next_random_seed();
    }
    EXPECT_EQ(random_state().drawn, 2U);
    std::thread([] { EXPECT_EQ(random_state().seed, 3U); }).join();
  }
  EXPECT_EQ(random_state().seed, 3U);
  EXPECT_EQ(random_state().drawn, 1U);
  set_random_seed(8);
  EXPECT_EQ(own, (std::vector<std::uint64_t>{next_random_seed(), next_random_seed()}));
}

TEST(Uniform, FillsItsInterval) {
  const std::vector<double> values = Tensor::uniform({100000}, -1.0, 3.0, 5, DType::float64).to_vector();
  double sum = 0, low = 10, high = -10;
  for (const double value : values) {
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_NEAR(sum / 100000, 1.0, 4.5 * 4 / std::sqrt(12.0 * 100000));
  EXPECT_GE(low, -1.0);
  EXPECT_LT(low, -0.999);
  EXPECT_LT(high, 3.0);
  EXPECT_GT(high, 2.999);
}

}  // namespace
}  // namespace headway

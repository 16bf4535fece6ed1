// dropout and add_dropout: the rule element by element, its statistics, the same mask on the way back.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/random.h"
#include "headway/ops.h"
#include "support/bits.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;
using headway::internal::ElementDropout;
using Inputs = std::vector<Tensor>;

constexpr std::uint64_t kSeed = 0xFEDCBA9876543210u;

// The rule written out once more, from philox alone.
bool dropped(std::int64_t i, std::uint32_t threshold, std::uint64_t seed) {
  const std::int64_t block = i / 128, e = i % 128;
  const std::int64_t call = block * 16 + e % 16;
  const auto words = headway::internal::philox4x32_7(
      {static_cast<std::uint32_t>(call & 0xFFFFFFFF), static_cast<std::uint32_t>(call >> 32), 0, 0xD809},
      {static_cast<std::uint32_t>(seed & 0xFFFFFFFF), static_cast<std::uint32_t>(seed >> 32)});
  const std::int64_t which = e / 16;
  const std::uint32_t word = words[static_cast<std::size_t>(which / 2)];
  return (which % 2 == 0 ? word % 65536 : word / 65536) < threshold;
}

TEST(ElementDropout, TheScalarRule) {
  const ElementDropout rule = ElementDropout::make(0.3, kSeed);
  EXPECT_EQ(rule.threshold, 19661u);
  EXPECT_EQ(rule.scale, 65536.0 / (65536.0 - 19661.0));
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(!rule.keep(i), dropped(i, rule.threshold, kSeed)) << i;
  const std::int64_t far = std::int64_t{1} << 40;  // a call number of more than 32 bits
  for (std::int64_t i = far - 300; i < far + 300; ++i) {
    ASSERT_EQ(!rule.keep(i), dropped(i, rule.threshold, kSeed)) << i;
  }
}

TEST(Dropout, FollowsTheRule) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {5, 27}, {0, 3}, {128}, {129}, {3, 100, 7}, {50001}}) {
      for (const double p : {0.1, 0.5, 0.97}) {
        const Tensor x = Tensor::randn(shape, 1, dtype), base = Tensor::randn(shape, 2, dtype);
        const ElementDropout rule = ElementDropout::make(p, kSeed);
        std::vector<double> expected = x.to_vector(), sums = base.to_vector();
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = dropped(static_cast<std::int64_t>(i), rule.threshold, kSeed) ? 0 : expected[i] * rule.scale;
          sums[i] += expected[i];
        }
        for (const Tensor& view : layouts_of(x)) {
          ASSERT_TRUE(close_to(headway::dropout(view, p, kSeed), expected, 2)) << x.describe() << " p = " << p;
          for (const Tensor& other : layouts_of(base)) {
            // Where the two cancel, the rounding error of the larger stays.
            ASSERT_TRUE(close_to(headway::add_dropout(other, view, p, kSeed), sums, 2, 4 * rule.scale));
          }
        }
      }
    }
  }
}

TEST(Dropout, DropsItsShare) {
  const std::int64_t count = 1 << 18;
  for (const double p : {0.1, 0.5, 0.9}) {
    const std::vector<double> values = headway::dropout(Tensor::full({count}, 1.0), p, 7).to_vector();
    double kept = 0, pairs = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      kept += values[i] != 0;
      pairs += i > 0 && values[i] != 0 && values[i - 1] != 0;
    }
    const double n = static_cast<double>(count), deviation = std::sqrt(p * (1 - p) / n);
    EXPECT_NEAR(kept / n, 1 - p, 5 * deviation + 1.0 / 65536);
    EXPECT_NEAR(pairs / n, (1 - p) * (1 - p), 0.01);
  }
}

TEST(Dropout, SeedsGiveMasksOfTheirOwn) {
  const Tensor x = Tensor::full({4096}, 1.0);
  const std::vector<double> a = headway::dropout(x, 0.5, 1).to_vector(), b = headway::dropout(x, 0.5, 2).to_vector();
  int differing = 0;
  for (std::size_t i = 0; i < a.size(); ++i) differing += a[i] != b[i];
  EXPECT_NEAR(differing, 2048, 200);
}

TEST(Dropout, HidesWhatItDrops) {
  const Tensor x = Tensor::full({4096}, std::nan(""));
  const std::vector<double> values = headway::dropout(x, 0.5, 3).to_vector();
  const ElementDropout rule = ElementDropout::make(0.5, 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(std::isnan(values[i]), rule.keep(static_cast<std::int64_t>(i)));
  }
}

TEST(Dropout, ZeroProbabilityChangesNothing) {
  const Tensor x = Tensor::randn({50}, 1), y = Tensor::randn({50}, 2);
  EXPECT_TRUE(same_bits(headway::dropout(x, 0.0, 1), x));
  EXPECT_TRUE(same_bits(headway::dropout(x, 1e-7, 1), x));
  EXPECT_TRUE(same_bits(headway::add_dropout(x, y, 0.0, 1), headway::add(x, y)));
}

TEST(Dropout, Gradients) {
  for (const Shape& shape : std::vector<Shape>{{}, {1}, {7}, {3, 50}, {2, 3, 70}, {0, 3}}) {
    for (const double p : {0.0, 0.4}) {
      for (const Tensor& x : awkward(shape, 1)) {
        SCOPED_TRACE(x.describe());
        if (p > 0) check_gradients([&](const Inputs& in) { return headway::dropout(in[0], p, kSeed); }, {x});
        for (const Tensor& y : awkward(shape, 2)) {
          check_gradients([&](const Inputs& in) { return headway::add_dropout(in[0], in[1], p, kSeed); }, {x, y},
                          {.elements = 8});
        }
      }
    }
  }
  // Shapes that broadcast: the mask is that of y.
  const Tensor row = Tensor::randn({40}, 3, DType::float64), many = Tensor::randn({3, 40}, 4, DType::float64);
  check_gradients([](const Inputs& in) { return headway::add_dropout(in[0], in[1], 0.4, 9); }, {row, many});
  EXPECT_TRUE(same_bits(headway::add_dropout(many, row, 0.4, 9), many + headway::dropout(row, 0.4, 9)));
}

TEST(Dropout, TheSameMaskOnTheWayBack) {
  for (const DType dtype : kFloatingDTypes) {
    Tensor x = Tensor::full({3, 1001}, 1.0, dtype), y = Tensor::full({3, 1001}, 1.0, dtype);
    const Tensor zeros = Tensor::zeros({3, 1001}, dtype), ones = Tensor::full({3, 1001}, 1.0, dtype);
    x.set_requires_grad();
    y.set_requires_grad();
    const Tensor alone = headway::dropout(x, 0.25, kSeed), added = headway::add_dropout(zeros, y, 0.25, kSeed);
    alone.backward(ones);
    added.backward(ones);
    EXPECT_TRUE(same_bits(x.grad(), alone));
    EXPECT_TRUE(same_bits(y.grad(), added));
    EXPECT_TRUE(same_bits(alone.detach(), added.detach()));
  }
}

TEST(Dropout, SameBitsWhateverTheThreads) {
  std::vector<Tensor> first;
  with_threads([&](int threads) {
    std::vector<Tensor> results;
    for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
      Tensor x = Tensor::randn({211, 701}, 1, dtype), y = Tensor::randn({211, 701}, 2, dtype);
      x.set_requires_grad();
      y.set_requires_grad();
      const Tensor result = headway::add_dropout(headway::dropout(x, 0.2, 4), y, 0.3, 5);
      result.backward(Tensor::randn({211, 701}, 3, dtype));
      for (const Tensor& each : {result, x.grad(), y.grad()}) results.push_back(each);
    }
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i], first[i])) << threads << " threads, result " << i;
    }
  });
}

TEST(Dropout, Errors) {
  const Tensor x = Tensor::zeros({3});
  EXPECT_EQ(message_of([&] { headway::dropout(x, 1.0, 1); }), "dropout: probability is 1, expected 0 <= p < 1");
  EXPECT_EQ(message_of([&] { headway::add_dropout(x, x, -0.5, 1); }),
            "add_dropout: probability is -0.5, expected 0 <= p < 1");
  EXPECT_NE(message_of([&] { headway::dropout(x, std::nan(""), 1); }), "no error");
  EXPECT_EQ(message_of([&] { headway::dropout(x.to(DType::int32), 0.1, 1); }),
            "dropout: x is int32[3], expected a floating dtype");
  EXPECT_EQ(message_of([&] { headway::add_dropout(x, x.to(DType::float64), 0.1, 1); }),
            "add_dropout: x is float32[3] and y is float64[3], expected one dtype");
}

}  // namespace
}  // namespace headway_test

// div, maximum, minimum, arithmetic with numbers, exp, log, sqrt and pow: values against plain loops, gradients against
// differences.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "headway/autograd.h"
#include "headway/ops.h"
#include "support/bits.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const std::vector<BinaryCase> kBinaries = {
    {"div", headway::div, [](double a, double b) { return a / b; }},
    {"maximum", headway::maximum, [](double a, double b) { return std::max(a, b); }},
    {"minimum", headway::minimum, [](double a, double b) { return std::min(a, b); }},
};

const std::vector<Shapes> kShapes = {
    {{}, {}, {}},
    {{37}, {}, {37}},
    {{3, 70}, {70}, {3, 70}},
    {{70}, {3, 70}, {3, 70}},
    {{2, 3, 40}, {2, 1, 40}, {2, 3, 40}},
    {{2, 3, 4}, {4}, {2, 3, 4}},
    {{4, 1}, {1, 5}, {4, 5}},
    {{0, 3}, {3}, {0, 3}},
    {{50001}, {50001}, {50001}},
};

// Values of at least 1/2 in size, by which one may divide, in any strides.
Tensor away_from_zero(const Tensor& x) { return headway::where(x < 0, x - 0.5, x + 0.5); }

TEST(Arithmetic, ValuesOfAllShapesAndLayouts) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shapes& shapes : kShapes) {
      const Tensor a = Tensor::randn(shapes.a, 1, dtype), b = away_from_zero(Tensor::randn(shapes.b, 2, dtype));
      for (const BinaryCase& c : kBinaries) {
        ASSERT_NO_FATAL_FAILURE(expect_values_in_all_layouts(c, a, b, shapes.result));
      }
    }
  }
}

TEST(Arithmetic, Gradients) {
  for (const BinaryCase& c : kBinaries) {
    const auto function = [&](const Inputs& in) { return c.operation(in[0], away_from_zero(in[1])); };
    for (const Shapes& shapes : kShapes) {
      if (shapes.result.rank() == 1 && shapes.result[0] > 1000) continue;
      for (const Tensor& a : awkward(shapes.a, 3)) {
        for (const Tensor& b : awkward(shapes.b, 4)) {
          SCOPED_TRACE(std::string(c.name) + " " + a.describe() + " " + b.describe());
          check_gradients(function, {a, b}, {.elements = 8});
        }
      }
    }
  }
}

TEST(Arithmetic, ExtremesOfTwoKeepNanAndGiveTiesToTheFirst) {
  const double nan = std::nan("");
  for (const DType dtype : kFloatingDTypes) {
    Tensor a = Tensor::from<double>({nan, 1, nan, 2, -kInfinity, 3}, {6}).to(dtype).set_requires_grad();
    Tensor b = Tensor::from<double>({1, nan, nan, 2, kInfinity, -3}, {6}).to(dtype).set_requires_grad();
    EXPECT_TRUE(close_to(headway::maximum(a, b), {nan, nan, nan, 2, kInfinity, 3}));
    EXPECT_TRUE(close_to(headway::minimum(a, b), {nan, nan, nan, 2, -kInfinity, -3}));
    headway::sum(headway::maximum(a, b).slice(0, 3, 6)).backward();
    EXPECT_EQ(a.grad().to_vector(), (std::vector<double>{0, 0, 0, 1, 0, 1}));
    EXPECT_EQ(b.grad().to_vector(), (std::vector<double>{0, 0, 0, 0, 1, 0}));
  }
}

// ---- functions of one tensor ----

struct UnaryCase {
  const char* name;
  std::function<Tensor(const Tensor&)> operation;
  std::function<double(double)> reference;
  bool positive = false;  // takes positive numbers alone
};
const std::vector<UnaryCase> kUnaries = {
    {"x + 1.5", [](const Tensor& x) { return x + 1.5; }, [](double x) { return x + 1.5; }},
    {"2 + x", [](const Tensor& x) { return 2 + x; }, [](double x) { return 2 + x; }},
    {"x - 1.5", [](const Tensor& x) { return x - 1.5; }, [](double x) { return x - 1.5; }},
    {"1 - x", [](const Tensor& x) { return 1 - x; }, [](double x) { return 1 - x; }},
    {"x / 3", [](const Tensor& x) { return x / 3; }, [](double x) { return x / 3; }},
    {"2 / x", [](const Tensor& x) { return 2 / x; }, [](double x) { return 2 / x; }, true},
    {"-x", [](const Tensor& x) { return -x; }, [](double x) { return -x; }},
    {"exp", [](const Tensor& x) { return headway::exp(x); }, [](double x) { return std::exp(x); }},
    {"log", [](const Tensor& x) { return headway::log(x); }, [](double x) { return std::log(x); }, true},
    {"sqrt", [](const Tensor& x) { return headway::sqrt(x); }, [](double x) { return std::sqrt(x); }, true},
    {"x^2", [](const Tensor& x) { return headway::pow(x, 2); }, [](double x) { return x * x; }},
    {"x^3", [](const Tensor& x) { return headway::pow(x, 3); }, [](double x) { return x * x * x; }},
    {"x^0", [](const Tensor& x) { return headway::pow(x, 0); }, [](double) { return 1.0; }},
    {"x^-0.5", [](const Tensor& x) { return headway::pow(x, -0.5); }, [](double x) { return 1 / std::sqrt(x); }, true},
};

// |x| + 0.1, with a gradient.
Tensor made_positive(const Tensor& x) { return headway::where(x < 0, 0.1 - x, x + 0.1); }

TEST(Unary, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{}, {1}, {15}, {16}, {17}, {5, 9}, {0, 3}, {70003}}) {
      const Tensor any = headway::scale(Tensor::randn(shape, 1, dtype), 2), positive = made_positive(any);
      for (const UnaryCase& c : kUnaries) {
        const Tensor& x = c.positive ? positive : any;
        std::vector<double> expected = x.to_vector();
        for (double& value : expected) value = c.reference(value);
        for (const Tensor& view : layouts_of(x)) {
          const Tensor result = c.operation(view);
          ASSERT_EQ(result.shape(), shape);
          ASSERT_TRUE(close_to(result, expected, 2)) << c.name;
        }
      }
    }
  }
}

TEST(Unary, Gradients) {
  for (const UnaryCase& c : kUnaries) {
    const auto function = [&](const Inputs& in) { return c.operation(c.positive ? made_positive(in[0]) : in[0]); };
    for (const Shape& shape : std::vector<Shape>{{}, {7}, {3, 19}, {0, 3}}) {
      for (const Tensor& x : awkward(shape, 5)) {
        SCOPED_TRACE(std::string(c.name) + " " + x.describe());
        check_gradients(function, {x});
      }
    }
  }
}

TEST(Unary, LimitsOfExpAndLog) {
  const double nan = std::nan("");
  for (const DType dtype : kFloatingDTypes) {
    const Tensor x = Tensor::from<double>({nan, kInfinity, -kInfinity, 0, -0.0, -1, 1, 1e30}, {8}).to(dtype);
    const bool has_room = x.at({7}) < kInfinity;  // float16 ends before
    EXPECT_TRUE(close_to(headway::exp(x), {nan, kInfinity, 0, 1, 1, std::exp(-1), std::exp(1), kInfinity}));
    EXPECT_TRUE(close_to(headway::log(x), {nan, kInfinity, nan, -kInfinity, -kInfinity, nan, 0,
                                           has_room ? std::log(x.at({7})) : kInfinity}));
    EXPECT_TRUE(close_to(headway::sqrt(x.slice(0, 0, 3)), {nan, kInfinity, nan}));
    EXPECT_TRUE(close_to(1 / x.slice(0, 1, 4), {0, 0, kInfinity}));
  }
  // All the way to where the exponentials end.
  for (double power = -120; power < 130; power += 0.37) {
    EXPECT_TRUE(close_to(headway::exp(Tensor::full({20}, power)),
                         std::vector<double>(20, static_cast<float>(std::exp(static_cast<float>(power)))), 2, 1e-37))
        << power;
    EXPECT_TRUE(close_to(headway::exp(Tensor::full({20}, 6 * power, DType::float64)),
                         std::vector<double>(20, std::exp(6 * power)), 4, 1e-307))
        << power;
  }
  for (double power = -37.5; power < 38.5; power += 0.31) {
    const Tensor x = Tensor::full({20}, std::pow(10, power));
    EXPECT_TRUE(close_to(headway::log(x), std::vector<double>(20, std::log(x.at({0}))), 2)) << power;
  }
}

TEST(Unary, PowerOfZeroHasAGradient) {
  Tensor x = Tensor::from<double>({0, 2}, {2}).set_requires_grad();
  headway::sum(headway::pow(x, 0) + headway::pow(x, 1) + headway::pow(x, 2)).backward();
  EXPECT_EQ(x.grad().to_vector(), (std::vector<double>{1, 5}));
}

TEST(Unary, NegationKeepsTheSignOfZero) {
  EXPECT_TRUE(std::signbit((-Tensor::zeros({1})).item()));
  EXPECT_TRUE(std::signbit((Tensor::full({1}, -0.0) / 2).item()));
}

TEST(Unary, Errors) {
  const Tensor whole = Tensor::zeros({2}, DType::int64);
  EXPECT_EQ(message_of([&] { whole + 1; }), "add: x is int64[2], expected a floating dtype");
  EXPECT_EQ(message_of([&] { 1 / whole; }), "div: x is int64[2], expected a floating dtype");
  EXPECT_EQ(message_of([&] { -whole; }), "neg: x is int64[2], expected a floating dtype");
  EXPECT_EQ(message_of([&] { headway::exp(Tensor()); }), "exp: x is undefined, expected a tensor");
  EXPECT_EQ(message_of([&] { headway::maximum(whole, whole); }), "maximum: a is int64[2], expected a floating dtype");
  EXPECT_EQ(message_of([&] { headway::maximum(Tensor(), whole); }), "maximum: a is undefined, expected a tensor");
  EXPECT_EQ(message_of([&] { Tensor::zeros({2}) / Tensor::zeros({3}); }),
            "div: a is float32[2] and b is float32[3], whose shapes do not broadcast");
}

TEST(Unary, AChangeOfWhatIsKeptIsNoticed) {
  Tensor x = Tensor::full({4}, 2).set_requires_grad();
  const Tensor logarithm = headway::sum(headway::log(x)), power = headway::sum(headway::exp(x));
  {
    const headway::NoGradGuard guard;
    x.fill(1);
  }
  EXPECT_EQ(message_of([&] { logarithm.backward(); }),
            "log: a tensor saved for the backward pass, float32[4], was changed in place since");
  power.backward();  // which keeps its result alone
  EXPECT_TRUE(close_to(x.grad(), std::vector<double>(4, std::exp(2.0)), 2));
}

TEST(Arithmetic, SameBitsWhateverTheThreads) {
  std::vector<Tensor> first;
  with_threads([&](int threads) {
    Tensor x = Tensor::randn({211, 700}, 1).set_requires_grad(), y = Tensor::full({700}, 1.5).set_requires_grad();
    const Tensor mixed = headway::exp(headway::maximum(x / y, headway::log(y + 2)));
    mixed.backward(Tensor::randn({211, 700}, 4));
    const std::vector<Tensor> results = {mixed, x.grad(), y.grad(), headway::max(x), headway::argmax(x, 0)};
    if (first.empty()) first = results;
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_TRUE(same_bits(results[i], first[i])) << threads << " threads, result " << i;
    }
  });
}

}  // namespace
}  // namespace headway_test

// Comparisons, where, the logic of booleans, max, min, argmax, argmin and stack.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "headway/ops.h"
#include "support/bits.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using Values = std::vector<double>;

const std::vector<DType> kAllDTypes = {DType::float32, DType::float64, DType::bfloat16, DType::float16,
                                       DType::int32,   DType::int64,   DType::boolean,  DType::int8};

// Small whole numbers with many ties, in any dtype.
Tensor small_numbers(const Shape& shape, std::uint64_t seed, DType dtype) {
  return headway::scale(Tensor::randn(shape, seed, DType::float64), 2).to(DType::int32).to(dtype);
}

struct CompareCase {
  const char* name;
  Tensor (*operation)(const Tensor&, const Tensor&);
  Tensor (*with_number)(const Tensor&, double);
  bool (*reference)(double, double);
};
const std::vector<CompareCase> kComparisons = {
    {"eq", headway::eq, headway::eq, [](double a, double b) { return a == b; }},
    {"ne", headway::ne, headway::ne, [](double a, double b) { return a != b; }},
    {"lt", headway::lt, headway::lt, [](double a, double b) { return a < b; }},
    {"le", headway::le, headway::le, [](double a, double b) { return a <= b; }},
    {"gt", headway::gt, headway::gt, [](double a, double b) { return a > b; }},
    {"ge", headway::ge, headway::ge, [](double a, double b) { return a >= b; }},
};

const std::vector<Shapes> kShapes = {
    {{}, {}, {}},
    {{37}, {}, {37}},
    {{3, 70}, {70}, {3, 70}},
    {{70}, {3, 70}, {3, 70}},
    {{4, 1}, {1, 5}, {4, 5}},
    {{0, 3}, {3}, {0, 3}},
    {{50001}, {50001}, {50001}},
    {{600, 70}, {70}, {600, 70}},
};

TEST(Compare, ValuesOfAllDTypesShapesAndLayouts) {
  for (const DType dtype : kAllDTypes) {
    for (const Shapes& shapes : kShapes) {
      const Tensor a = small_numbers(shapes.a, 1, dtype), b = small_numbers(shapes.b, 2, dtype);
      for (const CompareCase& c : kComparisons) {
        const Values expected = pairwise(c.reference, a, b, shapes.result);
        for (const Tensor& x : layouts_of(a)) {
          const Tensor result = c.operation(x, b);
          ASSERT_EQ(result.shape(), shapes.result);
          ASSERT_EQ(result.dtype(), DType::boolean);
          ASSERT_EQ(result.to_vector(), expected) << c.name << " " << a.describe() << " " << b.describe();
        }
      }
    }
  }
}

TEST(Compare, WithNumbers) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = small_numbers({5, 9}, 1, dtype);
    const Values values = x.to_vector();
    for (const CompareCase& c : kComparisons) {
      for (const double number : {0.0, 1.0, -1.5, 0.5, 1e300, std::nan("")}) {
        Values expected;
        for (const double value : values) expected.push_back(c.reference(value, number));
        for (const Tensor& view : layouts_of(x)) {
          EXPECT_EQ(c.with_number(view, number).to_vector(), expected) << c.name << " " << number;
        }
      }
    }
  }
  // A number is what the tensor would hold of it.
  for (const DType dtype : kFloatingDTypes) EXPECT_EQ((Tensor::full({1}, 0.1, dtype) == 0.1).item(), 1);
}

TEST(Compare, Operators) {
  const Tensor a = Tensor::from({1, 2, 3}, {3}), b = Tensor::from({3, 2, 1}, {3});
  EXPECT_EQ((a == b).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ((a != b).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ((a < b).to_vector(), (Values{1, 0, 0}));
  EXPECT_EQ((a <= b).to_vector(), (Values{1, 1, 0}));
  EXPECT_EQ((a > b).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((a >= b).to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ((a == 2).to_vector(), (Values{0, 1, 0}));
  EXPECT_EQ((2 != a).to_vector(), (Values{1, 0, 1}));
  EXPECT_EQ((2 < a).to_vector(), (Values{0, 0, 1}));
  EXPECT_EQ((2 <= a).to_vector(), (Values{0, 1, 1}));
  EXPECT_EQ((2 > a).to_vector(), (Values{1, 0, 0}));
  EXPECT_EQ((2 >= a).to_vector(), (Values{1, 1, 0}));
  // A tensor has no truth of its own: `if (a == b)` is for Tensor::defined(), item() or headway::min().
  static_assert(!std::is_constructible_v<bool, Tensor>);
}

TEST(Compare, NanIsUnequalAndLargeIntegersAreExact) {
  const Tensor nan = Tensor::from({NAN, 1.0f}, {2});
  EXPECT_EQ((nan == nan).to_vector(), (Values{0, 1}));
  EXPECT_EQ((nan != nan).to_vector(), (Values{1, 0}));
  EXPECT_EQ((nan >= nan).to_vector(), (Values{0, 1}));
  const std::int64_t large = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ((Tensor::from({large}, {1}) > Tensor::from({large - 1}, {1})).item(), 1);
}

TEST(Compare, Errors) {
  const Tensor a = Tensor::zeros({2});
  EXPECT_EQ(message_of([&] { return Tensor() == a; }), "eq: a is undefined, expected a tensor");
  EXPECT_EQ(message_of([&] { return a == Tensor::zeros({3}); }),
            "eq: a is float32[2] and b is float32[3], whose shapes do not broadcast");
  EXPECT_EQ(message_of([&] { return a < a.to(DType::int32); }),
            "lt: a is float32[2] and b is int32[2], expected one dtype");
  EXPECT_EQ(message_of([&] { return a >= Tensor(); }), "ge: b is undefined, expected a tensor");
  EXPECT_EQ(message_of([&] { return Tensor() != 1; }), "ne: x is undefined, expected a tensor");
}

TEST(Logic, OfBooleans) {
  const Tensor a = Tensor::from({true, true, false, false}, {4}), b = Tensor::from({true, false, true, false}, {4});
  EXPECT_EQ((~a).to_vector(), (Values{0, 0, 1, 1}));
  EXPECT_EQ((a & b).to_vector(), (Values{1, 0, 0, 0}));
  EXPECT_EQ((a | b).to_vector(), (Values{1, 1, 1, 0}));
  EXPECT_EQ((a.view({4, 1}) & b).shape(), (Shape{4, 4}));
  EXPECT_EQ(message_of([&] { a& Tensor::zeros({4}); }), "logical_and: b is float32[4], expected bool");
  EXPECT_EQ(message_of([&] { ~Tensor::zeros({4}); }), "logical_not: x is float32[4], expected bool");
  std::uint8_t bytes[] = {0, 1, 2, 255};  // a user's bool may be any byte
  EXPECT_EQ((~Tensor::wrap(bytes, {4}, DType::boolean)).to_vector(), (Values{1, 0, 0, 0}));
}

// ---- where ----

TEST(Where, ValuesOfAllDTypes) {
  for (const DType dtype : kAllDTypes) {
    const Tensor a = small_numbers({3, 50}, 1, dtype), b = small_numbers({3, 50}, 2, dtype);
    const Tensor mask = Tensor::randn({3, 50}, 3) > 0;
    const Values as = a.to_vector(), bs = b.to_vector(), chosen = mask.to_vector();
    Values both, left, right;
    for (std::size_t e = 0; e < as.size(); ++e) {
      both.push_back(chosen[e] != 0 ? as[e] : bs[e]);
      left.push_back(chosen[e] != 0 ? as[e] : 1);
      right.push_back(chosen[e] != 0 ? 0 : bs[e]);
    }
    for (const Tensor& x : layouts_of(a)) {
      EXPECT_EQ(headway::where(mask, x, b).to_vector(), both);
      EXPECT_EQ(headway::where(mask, x, 1.0).to_vector(), left);
    }
    EXPECT_EQ(headway::where(mask, 0.0, b).to_vector(), right);
    EXPECT_EQ(headway::where(mask, a, b).dtype(), dtype);
  }
}

TEST(Where, Broadcasts) {
  const Tensor mask = Tensor::from({true, false}, {2, 1}), a = Tensor::from({1.0f, 2.0f, 3.0f}, {3});
  EXPECT_EQ(headway::where(mask, a, Tensor::full({}, 9)).to_vector(), (Values{1, 2, 3, 9, 9, 9}));
  EXPECT_EQ(headway::where(mask, a, 0).shape(), (Shape{2, 3}));
  EXPECT_EQ(headway::where(Tensor::zeros({0, 1}, DType::boolean), a, a).shape(), (Shape{0, 3}));
}

TEST(Where, Gradients) {
  const Tensor mask = Tensor::randn({4, 5}, 3) > 0, column = Tensor::randn({4, 1}, 3) > 0;
  const auto function = [&](const Inputs& in) { return headway::where(mask, in[0], in[1]); };
  for (const Tensor& a : awkward({4, 5}, 1)) {
    for (const Tensor& b : awkward({5}, 2)) check_gradients(function, {a, b});
    check_gradients([&](const Inputs& in) { return headway::where(column, in[0], 3.0); }, {a});
    check_gradients([&](const Inputs& in) { return headway::where(column, 3.0, in[0]); }, {a});
  }
}

TEST(Where, NanThatIsNotChosenStaysOut) {
  Tensor x = Tensor::from({-1.0f, 4.0f}, {2}).set_requires_grad();
  headway::sum(headway::where(x > 0, headway::sqrt(headway::where(x > 0, x, 1.0)), 0.0)).backward();
  EXPECT_EQ(x.grad().to_vector(), (Values{0, 0.25}));
}

TEST(Where, Errors) {
  const Tensor mask = Tensor::zeros({2}, DType::boolean), a = Tensor::zeros({2});
  EXPECT_EQ(message_of([&] { headway::where(a, a, a); }), "where: mask is float32[2], expected bool");
  EXPECT_EQ(message_of([&] { headway::where(mask, a, Tensor()); }), "where: b is undefined, expected a tensor");
  EXPECT_EQ(message_of([&] { headway::where(mask, a, a.to(DType::int32)); }),
            "where: a is float32[2] and b is int32[2], expected one dtype");
  EXPECT_EQ(message_of([&] { headway::where(mask, Tensor::zeros({3}), 0); }),
            "where: mask is bool[2] and float32[3] came, whose shapes do not broadcast");
}

// ---- extremes ----

TEST(Extremes, OfAllDTypesAlongAllDimensions) {
  for (const DType dtype : kAllDTypes) {
    const Tensor x = small_numbers({4, 5, 6}, 1, dtype);
    for (int dim = -3; dim < 3; ++dim) {
      const Tensor last = x.transpose(dim, -1).contiguous();
      const Values values = last.to_vector();
      const std::size_t size = static_cast<std::size_t>(x.size(dim));
      Values highest, lowest, first_highest, first_lowest;
      for (std::size_t row = 0; row < values.size(); row += size) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(row);
        const auto end = begin + static_cast<std::ptrdiff_t>(size);
        const auto high = std::max_element(begin, end), low = std::min_element(begin, end);
        highest.push_back(*high);
        lowest.push_back(*low);
        first_highest.push_back(static_cast<double>(high - begin));
        first_lowest.push_back(static_cast<double>(low - begin));
      }
      const auto rows = [&](const Tensor& result) { return result.transpose(dim, -1).to_vector(); };
      for (const Tensor& view : layouts_of(x)) {
        EXPECT_EQ(rows(headway::max(view, dim, true)), highest);
        EXPECT_EQ(rows(headway::min(view, dim, true)), lowest);
        EXPECT_EQ(rows(headway::argmax(view, dim, true)), first_highest);
        EXPECT_EQ(rows(headway::argmin(view, dim, true)), first_lowest);
      }
      Shape without;
      for (int other = 0; other < 3; ++other) {
        if (other != (dim + 3) % 3) without.push_back(x.size(other));
      }
      EXPECT_EQ(headway::max(x, dim).shape(), without);
      EXPECT_EQ(headway::argmax(x, dim).shape(), without);
      EXPECT_EQ(headway::max(x, dim).dtype(), dtype);
      EXPECT_EQ(headway::argmin(x, dim).dtype(), DType::int64);
    }
  }
}

TEST(Extremes, OfAllElements) {
  for (const std::int64_t count : {1, 7, 40000, 100003}) {
    const Tensor x = small_numbers({count}, 1, DType::float32);
    const Values values = x.to_vector();
    const auto high = std::max_element(values.begin(), values.end());
    const auto low = std::min_element(values.begin(), values.end());
    EXPECT_EQ(headway::max(x).item(), *high);
    EXPECT_EQ(headway::min(x).item(), *low);
    EXPECT_EQ(headway::argmax(x).item(), static_cast<double>(high - values.begin()));
    EXPECT_EQ(headway::argmin(x).item(), static_cast<double>(low - values.begin()));
  }
  EXPECT_EQ(headway::argmax(Tensor::from({1, 5, 2, 5}, {2, 2})).item(), 1);
}

TEST(Extremes, TheFirstNanIsTheExtreme) {
  for (const DType dtype : kFloatingDTypes) {
    const Tensor x = Tensor::from<double>({1, NAN, INFINITY, NAN}, {4}).to(dtype);
    EXPECT_TRUE(std::isnan(headway::max(x).item()));
    EXPECT_TRUE(std::isnan(headway::min(x, 0).item()));
    EXPECT_EQ(headway::argmax(x).item(), 1);
    EXPECT_EQ(headway::argmin(x).item(), 1);
  }
  Tensor many = Tensor::zeros({100000});
  many.slice(0, 70000, 70001).fill(NAN);
  EXPECT_EQ(headway::argmax(many).item(), 70000);
}

TEST(Extremes, Gradients) {
  for (const Tensor& x : awkward({4, 5, 6}, 1)) {
    if (x.stride(0) == 0) continue;  // equal rows have no derivative
    for (int dim = -3; dim < 3; ++dim) {
      check_gradients([&](const Inputs& in) { return headway::max(in[0], dim); }, {x});
      check_gradients([&](const Inputs& in) { return headway::min(in[0], dim, true); }, {x});
    }
    check_gradients([&](const Inputs& in) { return headway::max(in[0]); }, {x}, {.elements = 0});
  }
  Tensor tied = Tensor::from({1.0f, 3.0f, 3.0f}, {3}).set_requires_grad();
  headway::max(tied).backward();
  EXPECT_EQ(tied.grad().to_vector(), (Values{0, 1, 0}));
}

TEST(Extremes, Errors) {
  EXPECT_EQ(message_of([] { headway::max(Tensor::zeros({0, 3})); }), "max: x is float32[0, 3], which has no elements");
  EXPECT_EQ(message_of([] {
              headway::argmax(Tensor::zeros({3, 0}), 1);
            }),
            "argmax: dimension 1 of float32[3, 0] has no elements");
  EXPECT_EQ(headway::min(Tensor::zeros({3, 0}), 0).shape(), (Shape{0}));
  EXPECT_EQ(message_of([] { headway::min(Tensor::zeros({3}), 1); }),
            "min: dimension 1 is out of range for 1 dimensions");
  EXPECT_EQ(message_of([] { headway::argmin(Tensor()); }), "argmin: x is undefined, expected a tensor");
}

// ---- stack ----

TEST(Stack, AlongANewDimension) {
  const Tensor a = Tensor::from({1, 2}, {2}), b = Tensor::from({3, 4}, {2});
  EXPECT_EQ(headway::stack({a, b}).to_vector(), (Values{1, 2, 3, 4}));
  EXPECT_EQ(headway::stack({a, b}, -1).to_vector(), (Values{1, 3, 2, 4}));
  EXPECT_EQ(headway::stack({a, b, a}, 1).shape(), (Shape{2, 3}));
  for (const Tensor& x : awkward({2, 3}, 1)) {
    check_gradients([](const Inputs& in) { return headway::stack(in, 1); },
                    {x, x, Tensor::randn({2, 3}, 2, DType::float64)});
  }
  EXPECT_EQ(message_of([&] { headway::stack({}); }), "stack: there are no tensors, expected at least one");
  EXPECT_EQ(message_of([&] {
              headway::stack({a, Tensor::zeros({2})});
            }),
            "stack: tensor 1 is float32[2] and the first int32[2], expected one shape and one dtype");
  EXPECT_EQ(message_of([&] { headway::stack({a}, 2); }), "stack: dimension 2 is out of range for 2 dimensions");
}

}  // namespace
}  // namespace headway_test

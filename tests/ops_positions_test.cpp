// rotary and sinusoidal_positions: against their formulas.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "headway/ops.h"
#include "support/bits.h"
#include "support/cases.h"
#include "support/elementwise.h"
#include "support/gradcheck.h"
#include "support/message_of.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::RotaryOptions;
using headway::Shape;
using headway::Sinusoid;
using headway::Tensor;
using Inputs = std::vector<Tensor>;

// The position of a row of x [..., length, head_dim].
double position_of(const RotaryOptions& options, const Tensor& x, std::int64_t row) {
  const std::int64_t length = x.size(-2);
  if (!options.positions.defined()) return static_cast<double>(options.offset + row % length);
  if (options.positions.rank() == 1) return options.positions.at({row % length});
  const std::int64_t rows = x.element_count() / x.size(-1), entry = row / (rows / x.size(0));
  return options.positions.at({options.positions.size(0) == 1 ? 0 : entry, row % length});
}

double frequency_of(const RotaryOptions& options, std::int64_t i, std::int64_t dims) {
  if (!options.frequencies.empty()) return options.frequencies[static_cast<std::size_t>(i)];
  return std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(dims));
}

std::vector<double> rotary_reference(const Tensor& x, const RotaryOptions& options) {
  std::vector<double> values = x.to_vector();
  const std::int64_t head_dim = x.size(-1), dims = options.dims == 0 ? head_dim : options.dims;
  const std::int64_t rows = head_dim == 0 ? 0 : static_cast<std::int64_t>(values.size()) / head_dim;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < dims / 2; ++i) {
      const double angle = position_of(options, x, row) * frequency_of(options, i, dims);
      double& a = values[static_cast<std::size_t>(row * head_dim + (options.interleaved ? 2 * i : i))];
      double& b = values[static_cast<std::size_t>(row * head_dim + (options.interleaved ? 2 * i + 1 : i + dims / 2))];
      const double turned = a * std::cos(angle) - b * std::sin(angle);
      b = options.factor * (a * std::sin(angle) + b * std::cos(angle));
      a = options.factor * turned;
    }
  }
  return values;
}

std::vector<RotaryOptions> rotary_options(std::int64_t head_dim) {
  std::vector<RotaryOptions> all;
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t offset : {0, 1, 45}) {
      all.push_back({.interleaved = interleaved, .offset = offset});
      all.push_back({.base = 500.0, .dims = head_dim / 4 * 2, .interleaved = interleaved, .offset = offset});
    }
  }
  return all;
}

TEST(Rotary, Values) {
  for (const DType dtype : test_dtypes()) {
    for (const Shape& shape :
         std::vector<Shape>{{1, 2}, {3, 4}, {2, 5, 8}, {2, 3, 70, 34}, {2, 0, 4}, {0, 5, 4}, {3, 0}, {2, 2, 300, 64}}) {
      const Tensor x = Tensor::randn(shape, 1, dtype);
      for (const RotaryOptions& options : rotary_options(shape[-1])) {
        const std::vector<double> expected = rotary_reference(x, options);
        for (const Tensor& view : layouts_of(x)) {
          const Tensor result = headway::rotary(view, options);
          ASSERT_EQ(result.shape(), shape);
          ASSERT_TRUE(close_to(result, expected, dtype == DType::float64 ? 1000 : 4, 1)) << x.describe();
        }
      }
    }
  }
}

TEST(Rotary, HeadsInsideOfRows) {
  // [batch, heads, length, head_dim] as a view of [batch, length, heads * head_dim], as a projection leaves it.
  const Tensor rows = Tensor::randn({2, 50, 3 * 16}, 1);
  const Tensor view = rows.view({2, 50, 3, 16}).transpose(1, 2);
  EXPECT_TRUE(same_bits(headway::rotary(view), headway::rotary(view.contiguous())));
}

TEST(Rotary, APositionIsTheSameWhateverTheOffset) {
  for (const DType dtype : kFloatingDTypes) {
    for (const bool interleaved : {false, true}) {
      const Tensor x = Tensor::randn({2, 100, 24}, 1, dtype);
      const Tensor all = headway::rotary(x, {.interleaved = interleaved});
      for (const std::int64_t start : {0, 1, 31, 32, 33, 63, 99}) {
        const Tensor rest = headway::rotary(x.slice(1, start, 100), {.interleaved = interleaved, .offset = start});
        EXPECT_TRUE(same_bits(rest, all.slice(1, start, 100))) << start;
      }
    }
  }
}

TEST(Rotary, FarPositions) {
  const Tensor x = Tensor::randn({4, 8}, 1, DType::float64);
  const RotaryOptions options = {.offset = 1'000'000'007};
  EXPECT_TRUE(near(headway::rotary(x, options), Tensor::from(rotary_reference(x, options), {4, 8}), 1e-6));
}

TEST(Rotary, Gradients) {
  for (const Shape& shape : std::vector<Shape>{{3, 4}, {2, 3, 10}, {2, 0, 4}, {2, 2, 3, 6}}) {
    for (const RotaryOptions& options : rotary_options(shape[-1])) {
      for (const Tensor& x : awkward(shape, 1)) {
        SCOPED_TRACE(x.describe());
        check_gradients([&](const Inputs& in) { return headway::rotary(in[0], options); }, {x}, {.elements = 16});
      }
    }
  }
}

TEST(Rotary, SameBitsWhateverTheThreads) {
  std::vector<Tensor> first;
  with_threads([&](int threads) {
    Tensor x = Tensor::randn({4, 3, 333, 64}, 1);
    x.set_requires_grad();
    const Tensor y = headway::rotary(x);
    y.backward(Tensor::randn({4, 3, 333, 64}, 2));
    if (first.empty()) first = {y, x.grad()};
    EXPECT_TRUE(same_bits(y, first[0])) << threads << " threads";
    EXPECT_TRUE(same_bits(x.grad(), first[1])) << threads << " threads";
  });
}

// Positions in any order, of all entries or of each, beside other frequencies and a factor.
std::vector<RotaryOptions> positions_options(const Shape& shape) {
  const std::int64_t length = shape[-2], batch = shape[0], half = shape[-1] / 2;
  const auto drawn = [&](const Shape& of, std::int64_t factor) {
    std::vector<std::int64_t> positions;
    const std::int64_t count = of.rank() == 1 ? of[0] : of[0] * of[1];
    for (std::int64_t i = 0; i < count; ++i) positions.push_back(i * factor % 101);
    return Tensor::from(positions, of);
  };
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < half; ++i) frequencies.push_back(1.0 / (1.0 + 3.0 * static_cast<double>(i * i)));
  std::vector<RotaryOptions> all;
  for (const bool interleaved : {false, true}) {
    all.push_back({.interleaved = interleaved, .positions = drawn({length}, 37)});
    all.push_back({.interleaved = interleaved, .positions = drawn({1, length}, 13), .factor = 1.25});
    all.push_back({.interleaved = interleaved, .positions = drawn({batch, length}, 41), .frequencies = frequencies});
    all.push_back({.interleaved = interleaved, .offset = 7, .frequencies = frequencies, .factor = 0.5});
  }
  return all;
}

TEST(Rotary, GivenPositionsAndFrequencies) {
  for (const DType dtype : kFloatingDTypes) {
    for (const Shape& shape : std::vector<Shape>{{2, 3, 4}, {2, 3, 70, 34}, {3, 1, 1, 8}}) {
      const Tensor x = Tensor::randn(shape, 1, dtype);
      for (const RotaryOptions& options : positions_options(shape)) {
        const std::vector<double> expected = rotary_reference(x, options);
        for (const Tensor& view : layouts_of(x)) {
          ASSERT_TRUE(close_to(headway::rotary(view, options), expected, dtype == DType::float64 ? 1000 : 4, 1))
              << x.describe();
        }
      }
    }
  }
}

TEST(Rotary, GivenPositionsHaveTheBitsOfAnOffset) {
  for (const DType dtype : kFloatingDTypes) {
    const Tensor x = Tensor::randn({2, 3, 80, 24}, 1, dtype);
    std::vector<std::int64_t> positions;
    for (std::int64_t i = 0; i < 160; ++i) positions.push_back(45 + i % 80);
    const Tensor expected = headway::rotary(x, {.offset = 45});
    EXPECT_TRUE(same_bits(headway::rotary(x, {.positions = Tensor::from(positions, {2, 80})}), expected));
    EXPECT_TRUE(same_bits(headway::rotary(x, {.positions = Tensor::from(positions, {2, 80}).select(0, 1)}), expected));
  }
}

TEST(Rotary, GradientsAtGivenPositions) {
  for (const Shape& shape : std::vector<Shape>{{2, 3, 10}, {2, 2, 3, 6}}) {
    for (const RotaryOptions& options : positions_options(shape)) {
      for (const Tensor& x : awkward(shape, 1)) {
        check_gradients([&](const Inputs& in) { return headway::rotary(in[0], options); }, {x}, {.elements = 8});
      }
    }
  }
}

TEST(Rotary, ErrorsOfPositions) {
  const Tensor x = Tensor::zeros({2, 3, 8});
  const auto positions = [](const Shape& shape) { return Tensor::zeros(shape, DType::int64); };
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.positions = positions({4})}); }),
            "rotary: positions is int64[4], expected int64[3] or int64[batch, 3]");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.positions = Tensor::zeros({3})}); }),
            "rotary: positions is float32[3], expected int64[3] or int64[batch, 3]");
  EXPECT_EQ(message_of([&] {
              headway::rotary(x, {.positions = positions({3, 3})});
            }),
            "rotary: positions is int64[3, 3], expected x's batch, and x is float32[2, 3, 8]");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.offset = 1, .positions = positions({3})}); }),
            "rotary: positions and offset are both given, expected one of them");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.positions = Tensor::full({3}, -1, DType::int64)}); }),
            "rotary: positions has -1, expected from 0 up to 2^53");
  EXPECT_EQ(message_of([&] {
              headway::rotary(x, {.frequencies = {1.0, 2.0}});
            }),
            "rotary: frequencies has 2 numbers, expected one for each of 4 pairs");
}

TEST(Rotary, Errors) {
  const Tensor x = Tensor::zeros({2, 3, 8});
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.dims = 5}); }), "rotary: dims is 5, expected an even number");
  EXPECT_EQ(message_of([&] { headway::rotary(x.slice(-1, 0, 7)); }), "rotary: dims is 7, expected an even number");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.dims = 10}); }),
            "rotary: dims is 10, expected at most x's head_dim 8");
  EXPECT_EQ(message_of([&] { headway::rotary(Tensor::zeros({8})); }),
            "rotary: x is float32[8], expected [..., length, head_dim]");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.offset = -1}); }),
            "rotary: offset is -1, expected from 0 up to 2^53 less x's length");
  EXPECT_EQ(message_of([&] { headway::rotary(x, {.base = 0}); }), "rotary: base is 0, expected a positive number");
  EXPECT_EQ(message_of([&] { headway::rotary(x.to(DType::int32)); }),
            "rotary: x is int32[2, 3, 8], expected a floating dtype");
}

TEST(SinusoidalPositions, Values) {
  for (const DType dtype : kFloatingDTypes) {
    for (const std::int64_t dim : {0, 1, 2, 6, 7}) {
      const Tensor neighbours = headway::sinusoidal_positions(50, dim, Sinusoid::interleaved, dtype);
      const Tensor halves = headway::sinusoidal_positions(50, dim, Sinusoid::halves, dtype);
      ASSERT_EQ(neighbours.shape(), (Shape{50, dim}));
      std::vector<double> by_pairs, by_halves;
      const auto value = [&](std::int64_t position, std::int64_t i, bool sine) {
        const double angle =
            static_cast<double>(position) / std::pow(10000.0, 2.0 * static_cast<double>(i) / static_cast<double>(dim));
        return sine ? std::sin(angle) : std::cos(angle);
      };
      for (std::int64_t position = 0; position < 50; ++position) {
        for (std::int64_t j = 0; j < dim; ++j) {
          by_pairs.push_back(value(position, j / 2, j % 2 == 0));
          const std::int64_t sines = (dim + 1) / 2;
          by_halves.push_back(j < sines ? value(position, j, true) : value(position, j - sines, false));
        }
      }
      EXPECT_TRUE(close_to(neighbours, by_pairs, 1, dtype == DType::float64 ? 100 : 1));
      EXPECT_TRUE(close_to(halves, by_halves, 1, dtype == DType::float64 ? 100 : 1));
    }
  }
  EXPECT_EQ(headway::sinusoidal_positions(0, 4).shape(), (Shape{0, 4}));
}

TEST(SinusoidalPositions, Errors) {
  EXPECT_EQ(message_of([] { headway::sinusoidal_positions(-1, 4); }),
            "sinusoidal_positions: length is -1, expected at least 0");
  EXPECT_EQ(message_of([] { headway::sinusoidal_positions(1, -4); }),
            "sinusoidal_positions: dim is -4, expected at least 0");
  EXPECT_EQ(message_of([] { headway::sinusoidal_positions(1, 4, Sinusoid::halves, DType::int32); }),
            "sinusoidal_positions: dtype is int32, expected a floating one");
}

}  // namespace
}  // namespace headway_test

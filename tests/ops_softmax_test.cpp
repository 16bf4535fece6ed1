// softmax() and log_softmax() against plain loops, and their gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "headway/ops.h"
#include "support/bits.h"
#include "support/gradcheck.h"
#include "support/message_of.h"
#include "support/row_operations.h"

namespace headway_test {
namespace {

using headway::DType;
using headway::Shape;
using headway::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Tensor apply(bool logarithm, const Tensor& x, int dim) {
  return logarithm ? headway::log_softmax(x, dim) : headway::softmax(x, dim);
}

Operation operation(bool logarithm, int dim) {
  return [=](const std::vector<Tensor>& inputs) { return apply(logarithm, inputs[0], dim); };
}

// In float64, over the last dimension.
Tensor by_loops(bool logarithm, const Tensor& x) {
  std::vector<double> values = x.to_vector();
  const auto n = static_cast<std::size_t>(x.size(-1));
  for (std::size_t row = 0; row < values.size(); row += n) {
    double largest = values[row], sum = 0;
    for (std::size_t i = 0; i < n; ++i) largest = std::max(largest, values[row + i]);
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(values[row + i] - largest);
    for (std::size_t i = 0; i < n; ++i) {
      const double shifted = values[row + i] - largest;
      values[row + i] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  }
  return Tensor::from(values, x.shape());
}

TEST(Softmax, IsThatOfPlainLoops) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 64}, Shape{5, 83}, Shape{2, 1000}, Shape{70, 257}}) {
      const Tensor x = headway::Tensor::uniform(shape, -8, 8, 3, dtype);
      for (const bool logarithm : {false, true}) {
        SCOPED_TRACE(x.describe() + (logarithm ? " logarithm" : ""));
        EXPECT_TRUE(near(apply(logarithm, x, -1), by_loops(logarithm, x), tolerance_of(dtype)));
      }
    }
  }
}

TEST(Softmax, GoesAlongAnyDimension) {
  const Tensor x = Tensor::randn({3, 4, 5}, 1, DType::float64);
  for (const bool logarithm : {false, true}) {
    for (int dim = -3; dim < 3; ++dim) {
      const Tensor expected = by_loops(logarithm, x.transpose(dim, -1).contiguous()).transpose(dim, -1);
      EXPECT_TRUE(near(apply(logarithm, x, dim), expected, 1e-14)) << dim;
      EXPECT_TRUE(apply(logarithm, x, dim).is_contiguous());
    }
  }
}

TEST(Softmax, SmallProbabilitiesAreAsExactAsLargeOnes) {
  Tensor x = Tensor::uniform({4, 515}, -60, 20, 5, DType::float32);
  for (std::int64_t i = 0; i < x.element_count(); ++i) {
    float& value = x.data<float>()[i];
    value = std::round(value * 64) / 64;  // so that differences are exact
  }
  const std::vector<double> actual = headway::softmax(x).to_vector(), expected = by_loops(false, x).to_vector();
  for (std::size_t i = 0; i < actual.size(); ++i) EXPECT_NEAR(actual[i] / expected[i], 1, 8e-7) << expected[i];
}

TEST(Softmax, HugeValuesDoNotOverflow) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const Tensor x = Tensor::from<double>({1e38, -1e38, 1e38, 0}, {1, 4}).to(dtype);
    EXPECT_EQ(headway::softmax(x).to_vector(), (std::vector<double>{0.5, 0, 0.5, 0}));
    EXPECT_TRUE(near(headway::log_softmax(x), by_loops(true, x), tolerance_of(dtype)));
  }
}

TEST(Softmax, InfinitiesAndNanAreTorchs) {
  const double nan = std::nan("");
  for (const std::int64_t length : {3, 40}) {
    std::vector<double> values(static_cast<std::size_t>(5 * length), -kInfinity);
    auto at = [&](std::int64_t row, std::int64_t i) -> double& {
      return values[static_cast<std::size_t>(row * length + i)];
    };
    at(1, 2) = 3;                  // one number among -infinity
    at(2, 0) = kInfinity;          // NaN
    at(3, 1) = nan, at(3, 2) = 1;  // NaN
    at(4, 0) = at(4, 2) = 1;       // two numbers
    for (const DType dtype : {DType::float32, DType::float64, DType::float16}) {
      const Tensor x = Tensor::from(values, {5, length}).to(dtype);
      const Tensor y = headway::softmax(x), log_y = headway::log_softmax(x);
      for (std::int64_t i = 0; i < length; ++i) {
        for (const std::int64_t row : {0, 2, 3}) {
          EXPECT_TRUE(std::isnan(y.at({row, i}))) << row << " " << i;
          EXPECT_TRUE(std::isnan(log_y.at({row, i}))) << row << " " << i;
        }
        EXPECT_EQ(y.at({1, i}), i == 2 ? 1 : 0);
        EXPECT_EQ(log_y.at({1, i}), i == 2 ? 0 : -kInfinity);
        EXPECT_EQ(y.at({4, i}), i == 0 || i == 2 ? 0.5 : 0);
      }
    }
  }
}

TEST(Softmax, Gradients) {
  for (const bool logarithm : {false, true}) {
    for (const Shape& shape : {Shape{5}, Shape{3, 7}, Shape{2, 3, 18}, Shape{2, 0, 3}, Shape{2, 0}}) {
      for (const Tensor& x : awkward(shape, 4)) {
        for (int dim = 0; dim < shape.rank(); ++dim) check_gradients(operation(logarithm, dim), {x});
      }
    }
  }
}

TEST(Softmax, DtypesAndThreadsAgree) {
  for (const bool logarithm : {false, true}) {
    expect_dtypes_agree(operation(logarithm, -1), {Tensor::randn({5, 67}, 9, DType::float64)});
    expect_dtypes_agree(operation(logarithm, 0), {Tensor::randn({31, 4}, 9, DType::float64)});
    expect_threads_agree(operation(logarithm, -1), {Tensor::randn({300, 131}, 10)});
    expect_threads_agree(operation(logarithm, 1), {Tensor::randn({20, 60, 50}, 11, DType::bfloat16)});
  }
}

TEST(Softmax, ErrorsNameWhatCame) {
  EXPECT_EQ(message_of([] {
              headway::softmax(Tensor::zeros({2, 3}, DType::int32));
            }),
            "softmax: x is int32[2, 3], expected a floating dtype");
  EXPECT_NE(message_of([] { headway::log_softmax(Tensor::zeros({2, 3}), 2); }).find("log_softmax"), std::string::npos);
  EXPECT_NE(message_of([] { headway::softmax(Tensor()); }), "no error");
}

}  // namespace
}  // namespace headway_test

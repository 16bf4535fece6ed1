// layer_norm() and rms_norm() against plain loops, and their gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

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

struct Parameters {
  Tensor weight = {};
  Tensor bias = {};
  double epsilon = 1e-5;
};

// In float64; `centered`: layer norm, otherwise RMS norm.
Tensor by_loops(const Tensor& x, const Parameters& parameters, bool centered) {
  std::vector<double> values = x.to_vector();
  const auto n = static_cast<std::size_t>(x.size(-1));
  const std::vector<double> weight = parameters.weight.defined() ? parameters.weight.to_vector() : std::vector(n, 1.0);
  const std::vector<double> bias = parameters.bias.defined() ? parameters.bias.to_vector() : std::vector(n, 0.0);
  for (std::size_t row = 0; row < values.size(); row += n) {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) mean += centered ? values[row + i] / static_cast<double>(n) : 0;
    for (std::size_t i = 0; i < n; ++i) squares += (values[row + i] - mean) * (values[row + i] - mean);
    const double root = std::sqrt(squares / static_cast<double>(n) + parameters.epsilon);
    for (std::size_t i = 0; i < n; ++i) values[row + i] = (values[row + i] - mean) / root * weight[i] + bias[i];
  }
  return Tensor::from(values, x.shape());
}

Operation layer_norm_operation() {
  return [](const std::vector<Tensor>& inputs) { return headway::layer_norm(inputs[0], inputs[1], inputs[2]); };
}
Operation rms_norm_operation() {
  return [](const std::vector<Tensor>& inputs) { return headway::rms_norm(inputs[0], inputs[1], 1e-5); };
}

TEST(Norm, IsThatOfPlainLoops) {
  for (const DType dtype : {DType::float32, DType::float64, DType::bfloat16, DType::float16}) {
    for (const Shape& shape : {Shape{1}, Shape{3, 5}, Shape{2, 3, 64}, Shape{5, 83}, Shape{2, 1000}, Shape{70, 257}}) {
      const Tensor x = Tensor::uniform(shape, -2, 6, 3, dtype);
      const Tensor weight = Tensor::randn({shape[-1]}, 4, dtype), bias = Tensor::randn({shape[-1]}, 5, dtype);
      SCOPED_TRACE(x.describe());
      for (const Parameters& p :
           {Parameters{weight, bias, 1e-5}, {weight, {}, 0.1}, {{}, bias, 1e-5}, {{}, {}, 1e-3}}) {
        EXPECT_TRUE(
            near(headway::layer_norm(x, p.weight, p.bias, p.epsilon), by_loops(x, p, true), tolerance_of(dtype)));
        const Parameters without_bias = {p.weight, {}, p.epsilon};
        EXPECT_TRUE(
            near(headway::rms_norm(x, p.weight, p.epsilon), by_loops(x, without_bias, false), tolerance_of(dtype)));
      }
    }
  }
}

TEST(Norm, AFarMeanDoesNotHurt) {
  const Tensor noise = Tensor::randn({4, 300}, 8, DType::float64);
  std::vector<double> values = noise.to_vector();
  for (double& value : values) value = value * 0.5 + 1000;
  const Tensor x = Tensor::from(values, noise.shape()).to(DType::float32);
  EXPECT_TRUE(near(headway::layer_norm(x), by_loops(x, {}, true), 2e-4));
}

TEST(Norm, DefaultEpsilonIsWhatTheDtypeIsComputedIn) {
  for (const auto& [dtype, epsilon] : {std::pair{DType::float32, 0x1p-23},
                                       {DType::float64, 0x1p-52},
                                       {DType::bfloat16, 0x1p-23},
                                       {DType::float16, 0x1p-23}}) {
    const Tensor x = Tensor::full({2, 5}, epsilon > 1e-10 ? 1e-3 : 1e-8, dtype);
    const Parameters p = {{}, {}, epsilon};
    EXPECT_TRUE(near(headway::rms_norm(x), by_loops(x, p, false), tolerance_of(dtype)));
  }
}

TEST(Norm, Gradients) {
  for (const Shape& shape : {Shape{6}, Shape{3, 7}, Shape{2, 3, 17}, Shape{9, 16}, Shape{0, 5}, Shape{3, 0}}) {
    const std::int64_t n = shape[-1];
    const Tensor weight = Tensor::randn({n}, 4, DType::float64), bias = Tensor::randn({n}, 5, DType::float64);
    const Tensor strided = Tensor::randn({n, 3}, 4, DType::float64).select(1, 1);
    for (const Tensor& x : awkward(shape, 6)) {
      SCOPED_TRACE(x.describe());
      check_gradients(layer_norm_operation(), {x, weight, bias});
      check_gradients(layer_norm_operation(), {x, strided, Tensor()});
      check_gradients(layer_norm_operation(), {x, Tensor(), bias});
      check_gradients(layer_norm_operation(), {x, Tensor(), Tensor()});
      check_gradients(rms_norm_operation(), {x, weight});
      check_gradients(rms_norm_operation(), {x, Tensor()});
    }
  }
}

// More rows than one chunk of sums holds.
TEST(Norm, GradientsOfManyRows) {
  const Tensor x = Tensor::randn({3000, 7}, 1, DType::float64);
  check_gradients(layer_norm_operation(),
                  {x, Tensor::randn({7}, 4, DType::float64), Tensor::randn({7}, 5, DType::float64)},
                  {.tolerance = 1e-5, .elements = 7});
}

TEST(Norm, DtypesAndThreadsAgree) {
  const Tensor weight = Tensor::uniform({67}, 0.5, 1.5, 4, DType::float64);
  const Tensor bias = Tensor::randn({67}, 5, DType::float64), x = Tensor::randn({50, 67}, 9, DType::float64);
  expect_dtypes_agree(layer_norm_operation(), {x, weight, bias});
  expect_dtypes_agree(rms_norm_operation(), {x, weight});
  for (const DType dtype : {DType::float32, DType::float16}) {
    const Tensor large = Tensor::randn({500, 67}, 9, dtype);
    expect_threads_agree(layer_norm_operation(), {large, weight.to(dtype), bias.to(dtype)});
    expect_threads_agree(rms_norm_operation(), {large, weight.to(dtype)});
  }
}

TEST(Norm, ErrorsNameWhatCame) {
  const Tensor x = Tensor::zeros({2, 3});
  EXPECT_EQ(message_of([&] { headway::layer_norm(x, Tensor::zeros({4})); }),
            "layer_norm: weight is float32[4], expected float32[3] for x float32[2, 3]");
  EXPECT_EQ(message_of([&] { headway::layer_norm(x, {}, Tensor::zeros({3}, DType::float64)); }),
            "layer_norm: bias is float64[3], expected float32[3] for x float32[2, 3]");
  EXPECT_EQ(message_of([&] {
              headway::rms_norm(x, Tensor::zeros({1, 3}));
            }),
            "rms_norm: weight is float32[1, 3], expected float32[3] for x float32[2, 3]");
  EXPECT_EQ(message_of([&] { headway::rms_norm(Tensor::zeros({})); }),
            "rms_norm: x is float32[], expected at least one dimension");
}

}  // namespace
}  // namespace headway_test
